"""A platform with many nodes and running jobs, and the time of a scrape of it; for benchmarks.scrape."""

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from prometheus_client import generate_latest  # noqa: E402

from benchmarks.metrics import report  # noqa: E402
from platform_core.jobs import spec as specification  # noqa: E402
from platform_core.node.description import POWER, SlotTelemetry, Telemetry  # noqa: E402
from webapp.accounts import services as people  # noqa: E402
from webapp.accounts.models import Role, User  # noqa: E402
from webapp.accounts.permissions import SYSTEM  # noqa: E402
from webapp.base.identity import now_ms  # noqa: E402
from webapp.deployments import queries as deployments  # noqa: E402
from webapp.jobs.models import Attempt, Job, Member  # noqa: E402
from webapp.nodes import liveness  # noqa: E402
from webapp.nodes import measures as node_measures  # noqa: E402
from webapp.nodes.models import Node, Slot  # noqa: E402
from webapp.rest import job_metrics, platform_metrics  # noqa: E402
from webapp.rest.prometheus import Families  # noqa: E402

TEAMS = 20
GPU = "h100-80gb"
GOAL_MS = 100
WARM_UP = 3


def main(nodes: int, slots: int, jobs: int, times: int) -> None:
    call_command("migrate", verbosity=0)
    fill(nodes, slots, jobs)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    sizes = {"nodes": nodes, "slots": nodes * slots, "jobs": jobs}
    parts: dict[str, Callable[[], object]] = {
        "deployments": lambda: generate_latest(Families(list(deployments.metrics(None)))),
        "teams": lambda: generate_latest(Families(list(platform_metrics.of_teams(None)))),
        "platform": lambda: generate_latest(Families(list(platform_metrics.of_platform()))),
        "jobs": lambda: generate_latest(Families(list(job_metrics.of_jobs(None)))),
        "nodes": lambda: "".join(node_measures.exposed()).encode(),
    }
    for name, part in parts.items():
        took, busy = timed(part, times)
        report("part", {**sizes, "part": name, "p50_ms": median(took), "cpu_ms": median(busy)})
    for encoding in ("identity", "gzip"):
        report("scrape", {**sizes, "encoding": encoding, **whole(encoding, times), "goal_ms": GOAL_MS})


def whole(encoding: str, times: int) -> dict[str, Any]:
    client = Client(
        headers={
            "Authorization": f"Bearer {settings.METRICS_TOKEN}",
            "Accept-Encoding": encoding,
            "Host": "localhost",
        }
    )
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.content
    plain = client.get("/metrics", headers={"Accept-Encoding": "identity"}).content
    took, busy = timed(lambda: client.get("/metrics"), times)
    return {
        "p50_ms": median(took),
        "cpu_ms": median(busy),
        "p95_ms": round(statistics.quantiles(took, n=20)[18], 1),
        "max_ms": round(max(took), 1),
        "bytes": len(answer.content),
        "samples": sum(1 for line in plain.splitlines() if not line.startswith(b"#")),
    }


def median(times: list[float]) -> float:
    return round(statistics.median(times), 1)


def timed(part: Callable[[], object], times: int) -> tuple[list[float], list[float]]:
    """Milliseconds by the clock and of this process alone, which others on the machine do not lengthen."""
    took, busy = [], []
    for _ in range(times + WARM_UP):
        gc.collect()
        begun, worked = time.perf_counter(), time.process_time()
        part()
        busy.append((time.process_time() - worked) * 1000)
        took.append((time.perf_counter() - begun) * 1000)
    return took[WARM_UP:], busy[WARM_UP:]


def fill(nodes: int, slots: int, jobs: int) -> None:
    now, rng = now_ms(), random.Random(1)
    for number in range(TEAMS):
        people.create_team(SYSTEM, f"team-{number}", f"Team {number}")
    people.create_user(SYSTEM, "alice", "password of alice")
    people.set_role(SYSTEM, "team-0", "alice", Role.MEMBER)
    Node.objects.bulk_create(
        Node(
            id=_node(number), hostname=f"gpu-{number:04d}.cluster.example", rack=f"rack-{number // 32}",
            gpu_type=GPU, cpus=128, memory_bytes=2**41, disk_bytes=2**43, agent_version="1.0.0",
            address="10.0.0.1", transfer_port=7444, rendezvous_port_low=29500, rendezvous_port_high=29999,
            state="ready", state_since_ms=now, last_seen_ms=now, credential_digest=f"{number:064x}", joined_ms=now,
        )
        for number in range(nodes)
    )  # fmt: skip
    held = nodes * slots * 9 // 10  # a tenth of the cluster is free
    Slot.objects.bulk_create(
        Slot(
            node_id=_node(number), index=index, name="NVIDIA H100", memory_bytes=80 * 2**30,
            attempt_id=_attempt((number * slots + index) % jobs) if number * slots + index < held else None,
        )
        for number in range(nodes)
        for index in range(slots)
    )  # fmt: skip
    for number in range(nodes):
        liveness.heard(_node(number), _telemetry(slots, rng), now)
        liveness.sent(_node(number), now - rng.randrange(2_000), now)
    _run(jobs, nodes, now)


def _telemetry(slots: int, rng: random.Random) -> Telemetry:
    return Telemetry(
        2**42,
        2**40,
        tuple(
            SlotTelemetry(
                index, rng.random(), rng.randrange(80 * 2**30), rng.randrange(30, 85), 0, 0, 0, 0,
                {POWER: rng.uniform(90, 700)},
            )
            for index in range(slots)
        ),
    )  # fmt: skip


def _run(jobs: int, nodes: int, now: int) -> None:
    alice = User.objects.get(username="alice")
    described = {"name": "load", "team": "team-0", "command": "python train.py", "gpu_type": GPU}
    spec = specification.as_mapping(specification.parse(described))
    Job.objects.bulk_create(
        Job(
            id=_job(number), team_id=f"team-{number % TEAMS}", user=alice, name=f"load-{number}", spec=spec,
            state="pending" if number % 10 == 0 else "running", submitted_ms=now, waiting_since_ms=now, started_ms=now,
            utilisation=0.7, step=number,
            gpu_type=GPU, num_gpus=16, priority=50, attempt=1,
        )
        for number in range(jobs)
    )  # fmt: skip
    Attempt.objects.bulk_create(
        Attempt(
            id=_attempt(number), job_id=_job(number), number=1, placed_ms=now, running_ms=now,
            master_address="10.0.0.1", master_port=29500,
        )
        for number in range(jobs)
    )  # fmt: skip
    Member.objects.bulk_create(
        Member(
            attempt_id=_attempt(number),
            node_id=_node(number * 2 % nodes),
            rank=0,
            slots=list(range(8)),
            phase="running",
        )
        for number in range(jobs)
    )


def _node(number: int) -> str:
    return f"node-{number:016d}"


def _job(number: int) -> str:
    return f"job-{number:016d}"


def _attempt(number: int) -> str:
    return f"att-{number:016d}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
