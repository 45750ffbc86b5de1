"""Runs outside the platform against the REST API as it is served: real processes, killed and synced, exactly once."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pytest_django.live_server_helper import LiveServer

import trainmaster
from tests.sdk import scripts
from tests.webapp.conftest import Cast, make_cast, make_teams
from trainmaster import query
from trainmaster.cli import main
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.experiments import files, rich_values
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics

SCRIPT = """
import math, random, trainmaster
run = trainmaster.init(name="digits", experiment="first steps", params={"lr": 0.1, "layers": [1, 2]},
                       tags={"stage": "try"}, group="seeds", seed=1)
for step in range(STEPS):
    run.log(step, loss=1 / (step + 1), **{"train/acc": step})
run.log(STEPS, loss=math.nan)
run.log(STEPS, bins=trainmaster.Histogram([1, 2, 3]), rows=trainmaster.Table(["a"], [[1], [None]]),
        notes=trainmaster.Text("done"), page=trainmaster.Html("<b>"))
import numpy
images = [trainmaster.Image(numpy.zeros((4, 4, 3)), caption="black"), trainmaster.Image(numpy.ones((4, 4)))]
run.log(STEPS, samples=images,
        voice=trainmaster.Audio(numpy.zeros(100)))
open("model.txt", "w").write("weights")
run.log_artifact("model.txt")
"""


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    make_teams()
    return make_cast()


@pytest.fixture
def login(live_server: LiveServer, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    token = tokens.create_token(accounts.actor_of(cast.owner), "vision", "laptop", 1).text
    variables = {"TRAINMASTER_URL": live_server.url, "TRAINMASTER_TOKEN": token}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return dict(variables)


@pytest.fixture
def sync() -> Callable[..., str]:
    def call(*words: str | Path) -> str:
        result = CliRunner().invoke(main, ["sync", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.output

    return call


def written(folder: Path, steps: int) -> str:
    (folder / "train.py").write_text(SCRIPT.replace("STEPS", str(steps)))
    return "train.py"


def points(run_id: str, key: str) -> list[tuple[int, float]]:
    kept, _ = metrics.history(run_id, key, limit=1_000_000)
    return list(zip(kept.steps, kept.values, strict=True))


def test_a_run_of_a_laptop_is_found_and_read_from_python(
    login: dict[str, object], cast: Cast, tmp_path: Path
) -> None:
    done = scripts.run([written(tmp_path, 100)], tmp_path, **login)
    assert "HTML is not shown" in done.stderr
    [record] = trainmaster.runs('metrics.loss IS NOT NULL and tags.stage = "try"', "start_time DESC")
    assert (record.name, record.state, record.team, record.source, record.group) == (
        "digits", "succeeded", "vision", "sdk", "seeds",
    )  # fmt: skip
    assert record.parameters == {"lr": 0.1, "layers": [1, 2]}
    assert trainmaster.runs(experiment="first steps", team="vision") == [record]
    assert trainmaster.runs(experiment="no such") == []
    history = record.history(["loss", "train/acc"])
    assert [(step, value) for step, value, _ in history["train/acc"]] == [(n, n) for n in range(100)]
    assert math.isnan(history["loss"][-1][1])
    assert query.run(record.id).experiment == "first steps"
    run = Run.objects.select_related("experiment", "owner").get(id=record.id)
    alice = accounts.actor_of(cast.owner)
    assert [(key.key, key.kind, key.values) for key in rich_values.keys(alice, run)] == [
        ("bins", "histogram", 1), ("notes", "text", 1), ("rows", "table", 1), ("samples", "image", 2),
        ("voice", "audio", 1),
    ]  # fmt: skip
    [first, _] = rich_values.at_step(alice, run, "samples", 100)
    assert (first.media_type, first.caption) == ("image/png", "black")
    assert b"".join(files.read(alice, run, "model.txt").blocks) == b"weights"
    assert run.lineage["reported_packages"]["python"]


def test_a_process_killed_at_any_moment_is_synced_exactly_once(
    login: dict[str, object], sync: Callable[..., str], tmp_path: Path
) -> None:
    """The kill falls anywhere into reading, sending and acknowledging, as the server has points by then."""
    steps = 400_000
    process = subprocess.Popen(
        [sys.executable, written(tmp_path, steps)], cwd=tmp_path, env=scripts.environment(**login),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in patiently():
        run = Run.objects.first()
        if run is not None and metrics.keys([run.id]):
            break
    process.kill()
    process.wait()
    assert run is not None
    [folder] = (tmp_path / "trainmaster-runs").iterdir()
    lines = [
        json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines() if line.endswith("}")
    ]
    logged = [(line["step"], line["values"]["loss"]) for line in lines if line["kind"] == "metrics"]
    assert 0 < len(points(run.id, "loss")) < len(logged)
    sync(folder)
    assert points(run.id, "loss") == logged
    run.refresh_from_db()
    assert (run.state, run.ended_ms) == ("failed", lines[-1]["at_ms"])
    assert "nothing was left to send" in sync(folder)
    (folder / "sent.json").unlink()  # a copy of the folder, or a lost file: everything is sent again
    sync(folder)
    assert points(run.id, "loss") == logged
    assert Run.objects.count() == 1


def patiently() -> Iterator[None]:
    """Until the caller breaks, or a minute has gone."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        yield
        time.sleep(0.02)
    raise AssertionError("it did not happen within a minute")


def test_a_run_without_a_network_is_synced_into_the_team_and_experiment_that_is_named(
    login: dict[str, object], sync: Callable[..., str], tmp_path: Path
) -> None:
    scripts.run([written(tmp_path, 10)], tmp_path)
    assert not Run.objects.exists()
    sync(tmp_path / "trainmaster-runs", "--team", "vision", "--experiment", "later")
    run = Run.objects.select_related("experiment").get()
    assert (run.experiment.name, run.state, len(points(run.id, "loss"))) == ("later", "succeeded", 11)


def test_a_stranger_cannot_send_into_a_team(
    live_server: LiveServer, cast: Cast, login: dict[str, object], tmp_path: Path
) -> None:
    token = tokens.create_token(accounts.actor_of(cast.outsider), "nlp", "laptop", 1).text
    text = SCRIPT.replace('group="seeds"', 'team="vision"').replace("STEPS", "3")
    (tmp_path / "train.py").write_text(text)
    done = scripts.run(["train.py"], tmp_path, **{**login, "TRAINMASTER_TOKEN": token})
    assert "trainmaster sync" in done.stderr
    assert not Run.objects.exists()
