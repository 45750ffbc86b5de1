"""Whatever a script logs, nothing raises, and what can be kept beside it arrives: over the client's own road and as a
job's, through the real agent's reader and the real server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pytest_django.live_server_helper import LiveServer

from agent.uplink import events
from platform_core.experiments import fields
from tests.sdk.scripts import attempt_folder
from tests.support.odd_values import GOOD, MAPPINGS, STEPS, VALUES, Raises
from tests.webapp.conftest import Cast, make_cast, make_teams
from trainmaster.client import Client
from trainmaster.environment import JobEnvironment
from trainmaster.run import Run
from trainmaster.setting import setting_of
from trainmaster.tracking.folder import RunFolder, named
from trainmaster.tracking.sender import Sender
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.experiments import services as experiments
from webapp.experiments.models import Run as KeptRun
from webapp.metrics import queries as metrics

BESIDE = {"lr": 0.1, "optimizer": "adam"}
WORDS = {"stage": "try"}
LOGGED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)  # fmt: skip
Send = Callable[[Run], tuple[KeptRun, list[str]]]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    make_teams()
    return make_cast()


def started(folder: Path, environment: JobEnvironment) -> Run:
    return Run(environment, setting_of(environment, "train", ""), lambda: 1_700_000_000_000)


@pytest.fixture
def tracked(
    live_server: LiveServer, cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[[], Run], Send]:
    """A run on a laptop, and its road: the spool, the sender, REST."""
    monkeypatch.chdir(tmp_path)
    token = tokens.create_token(accounts.actor_of(cast.owner), "vision", "laptop", 1).text
    client = Client(live_server.url, token)

    def send(run: Run) -> tuple[KeptRun, list[str]]:
        warnings: list[str] = []
        assert run.setting.home is not None
        with RunFolder(run.setting.home) as folder:
            assert folder.hold()
            folder.keep_identity(named(folder.identity(), team="vision", experiment="odd"))
            sender = Sender(folder, client, warnings.append)
            while sender.send_next():
                pass
        return KeptRun.objects.get(id=sender.identity.id), warnings

    return lambda: started(tmp_path, JobEnvironment()), send


@pytest.fixture
def as_a_job(cast: Cast, tmp_path: Path) -> tuple[Callable[[], Run], Send]:
    """A run of a job, and its road: the spool, the agent's reader, what the gateway does with a line."""
    numbers = iter(range(1_000))
    actor = accounts.actor_of(cast.owner)
    experiment = experiments.create_experiment(actor, "vision", "as a job")

    def make() -> Run:
        return started(tmp_path, JobEnvironment(folder=attempt_folder(tmp_path / f"attempt-{next(numbers)}")))

    def send(run: Run) -> tuple[KeptRun, list[str]]:
        left_out: list[str] = []
        kept = experiments.create_run(actor, experiment)
        assert run.setting.spool is not None
        for number, line in enumerate(run.setting.spool.read_bytes().splitlines()):
            event = events.parse(line)
            assert isinstance(event, events.Report)
            left_out += event.left_out
            told = json.loads(json.dumps(event.fields))
            match told["kind"]:
                case "init":
                    experiments.describe_run(kept.id, told)
                case "tags":
                    experiments.add_reported_tags(kept.id, told["tags"])
                case "metrics":
                    points = [
                        experiments.Point(name, told["step"], float(value), told["at_ms"])
                        for name, value in told["values"].items()
                    ]
                    experiments.ingest(kept.id, 1, points, source="rank-0", sequence=number)
        kept.refresh_from_db()
        return kept, left_out

    return make, send


@pytest.fixture(params=["tracked", "as a job"])
def road(
    request: pytest.FixtureRequest,
    tracked: tuple[Callable[[], Run], Send],
    as_a_job: tuple[Callable[[], Run], Send],
) -> tuple[Callable[[], Run], Send]:
    return tracked if request.param == "tracked" else as_a_job


def series(run: KeptRun, key: str) -> list[tuple[int, float]]:
    kept, _ = metrics.history(run.id, key, limit=1_000)
    return list(zip(kept.steps, kept.values, strict=True))


@LOGGED
@given(params=MAPPINGS, tags=MAPPINGS, values=MAPPINGS, more=MAPPINGS, step=STEPS, total=VALUES)
def test_nothing_that_is_logged_raises_or_costs_what_stands_beside_it(
    road: tuple[Callable[[], Run], Send],
    params: dict[Any, Any], tags: dict[Any, Any], values: dict[Any, Any], more: dict[Any, Any], step: Any, total: Any,
) -> None:  # fmt: skip
    make, send = road
    run = make()
    run.begin(
        total,
        {**params, **BESIDE},
        None,
        {**tags, **WORDS},
        name="",
        experiment="",
        team="",
        group="",
        parent="",
    )
    run.log(1, {**values, **GOOD})
    run.log(step, {**more, **GOOD})
    run.log(1_001, GOOD)
    kept, _ = send(run)
    assert BESIDE.items() <= kept.parameters.items()
    assert WORDS.items() <= kept.tags.items()
    for name, value in GOOD.items():
        points = series(kept, name)
        assert (1, value) in points
        assert (1_001, value) in points


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_kept_as_a_value(road: tuple[Callable[[], Run], Send], value: float) -> None:
    make, send = road
    run = make()
    run.begin(10, {"limit": value}, None)
    run.log(1, loss=value, acc=0.5)
    kept, warnings = send(run)
    assert kept.parameters == {"limit": str(value)}
    assert str(series(kept, "loss")[0][1]) == str(value)
    assert series(kept, "acc") == [(1, 0.5)]
    assert warnings == []


def test_one_warning_names_all_that_is_left_out(
    road: tuple[Callable[[], Run], Send], capsys: pytest.CaptureFixture[str]
) -> None:
    make, send = road
    run = make()
    run.begin(10, {"lr": 0.1, "": 1, "bad": Raises(), "long": "x" * 7_000}, None)
    run.log(1, {"loss": 1.0, "m." * 150: 2.0, "n": 10**400})
    run.log(2, {"loss": 0.5, "m." * 150: 2.0, "n": 10**400})
    warned = capsys.readouterr().err.splitlines()
    assert len(warned) == 2
    assert all(part in warned[0] for part in ("bad", "long", "name of a parameter"))
    assert all(
        part in warned[1] for part in ("m.m.m.", "300 characters", "n is a number beyond any fraction")
    )
    kept, _ = send(run)
    assert kept.parameters["lr"] == 0.1
    assert len(kept.parameters["long"]) == 6_000
    assert series(kept, "loss") == [(1, 1.0), (2, 0.5)]


def test_a_thousand_of_each_arrive_however_long(road: tuple[Callable[[], Run], Send]) -> None:
    make, send = road
    run = make()
    params = {f"p{number}": "ä" * 900 for number in range(400)}
    tags = {f"t{number}": "ä" * 2_000 for number in range(100)}
    values = {f"layers/{number}/" + "ä" * 100: float(number) for number in range(990)}
    run.begin(10, params, None, tags)
    run.log(1, values)
    kept, warnings = send(run)
    assert kept.parameters == params
    assert kept.tags == tags
    assert set(metrics.keys([kept.id])) == set(values)
    assert warnings == []


def test_a_run_at_its_limit_keeps_what_it_knows(
    tracked: tuple[Callable[[], Run], Send], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform refuses a whole batch; the sender finds the entry that it does not take."""
    make, send = tracked
    run = make()
    run.begin(10, {"lr": 0.1}, None)
    for step in range(3):
        run.log(step, {f"m{number}": float(step) for number in range(6)})
    monkeypatch.setattr(fields, "MAX_METRICS", 4)
    kept, warnings = send(run)
    assert metrics.keys([kept.id]) == ["m0", "m1", "m2", "m3"]
    assert series(kept, "m3") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert [warning[:2] for warning in warnings] == ["m4", "m5"]
