"""The measures of benchmarks.metrics that read and write the database, and the runs of benchmarks.pages, each in a
process of its own."""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import django
import numpy as np

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

from webapp.accounts import queries as accounts  # noqa: E402
from webapp.accounts import services as people  # noqa: E402
from webapp.accounts.models import Role, User  # noqa: E402
from webapp.accounts.permissions import SYSTEM  # noqa: E402
from webapp.base.identity import now_ms  # noqa: E402
from webapp.experiments import services as experiments  # noqa: E402
from webapp.experiments.models import Run  # noqa: E402
from webapp.metrics import queries, services  # noqa: E402
from webapp.metrics.values import Points  # noqa: E402

RUNS, COMPARED, COLUMNS = 10_000, 50, 2_000
COMPARED_KEYS = [f"{part}/{name}" for part in ("train", "val", "test") for name in "abcdefgh"]
MANY_KEYS = ["train/loss", "val/loss", "val/accuracy", "lr", "perf/step_time", "perf/tokens_per_second"]
BEGAN_MS = 1_790_000_000_000
Figures = dict[str, Any]


def prepare() -> Figures:
    call_command("migrate", verbosity=0)
    people.create_team(SYSTEM, "vision", "Vision")
    people.create_user(SYSTEM, "alice", "password of alice")
    people.set_role(SYSTEM, "vision", "alice", Role.MEMBER)
    return {}


def bytes_per_point() -> Figures:
    """A trainer's batches of 100 steps, compacted as the worker does it; free space of the tables is not counted."""
    steps, rng = 100_000, np.random.default_rng(1)
    columns = columns_of(steps, rng)
    times = BEGAN_MS + np.cumsum(rng.integers(80, 120, steps))
    for start in range(0, steps, 100):
        part = slice(start, start + 100)
        numbers = np.arange(start, start + 100)
        services.append(
            "bytes",
            [Points(key, numbers, values[part], times[part]) for key, values in columns.items()],
            source="bench",
            sequence=start,
        )
        if start % 12_800 == 0:
            services.compact("bytes")
    services.compact("bytes")
    tables = ("metrics_segment", "metrics_series", "metrics_subject", "metrics_source")
    with connection.cursor() as cursor:
        size = 0
        for table in tables:
            cursor.execute(f"VACUUM FULL {table}")
            cursor.execute("SELECT pg_total_relation_size(%s)", [table])
            size += cursor.fetchone()[0]
    return {"bytes": round(size / (steps * len(columns)), 2)}


def columns_of(steps: int, rng: np.random.Generator) -> dict[str, Any]:
    x = np.arange(steps) / steps
    return {
        "train/loss": np.float32(2 * np.exp(-5 * x) + rng.normal(0, 0.05, steps)).astype(float),
        "val/loss": np.float32(2 * np.exp(-4 * x) + 0.1 + rng.normal(0, 0.02, steps)).astype(float),
        "lr": 3e-4 * (1 + np.cos(math.pi * x)) / 2,
        "perf/step_time": rng.lognormal(-2, 0.1, steps),
        "val/accuracy": np.round(0.9 - 0.8 * np.exp(-4 * x) + rng.normal(0, 0.01, steps), 4),
        "system/gpu0/utilisation": rng.integers(60, 100, steps).astype(float),
    }


def load_10m() -> Figures:
    rng, size = np.random.default_rng(2), 1_000_000
    for start in range(0, 10_000_000, size):
        steps = np.arange(start, start + size)
        values = np.float32(np.exp(-steps / 3e6) + rng.normal(0, 0.05, size)).astype(float)
        times = BEGAN_MS + steps * 100 + rng.integers(0, 20, size)
        services.append("curve", [Points("train/loss", steps, values, times)])
    services.compact("curve")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE metrics_segment")
    return {}


def curve_10m() -> Figures:
    def read() -> float:
        started = time.perf_counter()
        drawn = queries.bands(["curve"], "train/loss", columns=COLUMNS)["curve"]
        assert sum(drawn.count) == 10_000_000
        assert len(drawn.count) == COLUMNS
        return (time.perf_counter() - started) * 1000

    cold, *warm = (read() for _ in range(6))
    return {"cold_ms": round(cold, 1), "warm_ms": round(statistics.median(warm), 1)}


def make_runs(experiment: str, count: int, keys: list[str], steps: int) -> list[str]:
    """Runs that have ended, each with the metrics; their ids."""
    actor = accounts.actor_of(User.objects.get(username="alice"))
    place = experiments.ensure_experiment(actor, "vision", experiment)
    owner, now, rng = User.objects.get(username="alice"), now_ms(), np.random.default_rng(3)
    ids = [f"{place.pk:08x}{number:024x}" for number in range(count)]
    Run.objects.bulk_create(
        [
            Run(
                id=run_id, experiment=place, name=f"run-{number}", owner=owner, state="succeeded", source="sdk",
                parameters={"lr": float(10 ** rng.uniform(-5, -2)), "layers": int(rng.integers(2, 12)), "seed": number},
                started_ms=BEGAN_MS, ended_ms=BEGAN_MS + 3_600_000, created_ms=BEGAN_MS + number, changed_ms=now,
            )
            for number, run_id in enumerate(ids)
        ]
    )  # fmt: skip
    numbers = np.arange(steps)
    times = BEGAN_MS + numbers * 1000
    for run_id in ids:
        decay = rng.uniform(2, 6)
        values = np.exp(-decay * numbers / steps) + rng.normal(0, 0.02, (len(keys), steps))
        services.append(
            run_id, [Points(key, numbers, row, times) for key, row in zip(keys, values, strict=True)]
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return ids


def signed_in() -> Client:
    client = Client(headers={"host": "localhost", "accept-encoding": "gzip"})
    client.force_login(User.objects.get(username="alice"))
    return client


def timed(client: Client, address: str) -> tuple[float, int, Any]:
    started = time.perf_counter()
    answer = client.get(address)
    took = (time.perf_counter() - started) * 1000
    assert answer.status_code == 200, (address[:200], answer.status_code)
    return took, len(answer.content), answer


def compare_50x24() -> Figures:
    """The page, and its charts, twelve a request; the median of five. A browser asks for six at once, to draw the first
    charts sooner."""
    keys, client = COMPARED_KEYS, signed_in()
    chosen = ",".join(runs_of_compare_50x24()["runs"])
    charts = [f"/experiments/curves/?runs={chosen}&key={'&key='.join(keys[at : at + 12])}" for at in (0, 12)]
    addresses = [f"/experiments/compare/?runs={chosen}", *charts]
    rounds = [[timed(client, address) for address in addresses] for _ in range(6)]
    took = statistics.median(sum(took for took, _, _ in visits) for visits in rounds[1:])
    return {"server_ms": round(took), "bytes": sum(size for _, size, _ in rounds[-1])}


def run_table_10k() -> Figures:
    client = signed_in()
    order = urlencode({"order": "metrics.`val/loss` ASC"})
    address = f"/experiments/{runs_of_table_10k()['experiment']}/?{order}"
    took = [timed(client, address)[0] for _ in range(6)]
    return {"server_ms": round(statistics.median(took[1:]))}


def runs_of_table_10k() -> Figures:
    first, *_ = make_runs("many", RUNS, MANY_KEYS, 50)
    return {"experiment": Run.objects.get(id=first).experiment_id}


def runs_of_compare_50x24() -> Figures:
    return {"runs": make_runs("compared", COMPARED, COMPARED_KEYS, 2_000)}


MEASURES: dict[str, Callable[[], Figures]] = {
    measure.__name__: measure
    for measure in (
        prepare,
        bytes_per_point,
        load_10m,
        curve_10m,
        run_table_10k,
        compare_50x24,
        runs_of_table_10k,
        runs_of_compare_50x24,
    )
}

if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]]()))
