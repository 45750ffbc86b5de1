"""Tuners outside and the commands, over REST as it is served; the two examples are run as they are."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pytest_django.live_server_helper import LiveServer

from tests.webapp.conftest import BOOTSTRAP, description, make_cast, make_teams
from tests.webapp.sweeps.conftest import FIELDS, ends, reports, round_, runs
from trainmaster.cli import main
from trainmaster.client import ApiError, Client
from trainmaster.sweeps import Sweeps, Trial
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.nodes import services as clusters
from webapp.quotas.models import Quota
from webapp.sweeps import models

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "sweeps"
OUTSIDE = {**FIELDS, "job": None, "parallel": 1, "budget": {"trials": 12}}


@pytest.fixture
def sweeps(
    live_server: LiveServer, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sweeps]:
    """Alice's program; vision may hold 8 CPU slots of one node."""
    vision, _ = make_teams()
    token = tokens.create_token(accounts.actor_of(make_cast().owner), "vision", "laptop", 1).text
    Quota.objects.create(team=vision, gpu_type="cpu", guaranteed=8, maximum=8)
    node, _ = clusters.join(BOOTSTRAP, description(slots=8))
    clusters.hello(node, description(slots=8))
    monkeypatch.setenv("TRAINMASTER_URL", live_server.url)
    monkeypatch.setenv("TRAINMASTER_TOKEN", token)
    with Client(live_server.url, token) as client:
        yield Sweeps(client)


class WithCluster(Sweeps):
    """Instead of waiting, lets the job of the trial run and report its loss."""

    def wait(self, sweep_id: str, number: int, **_: Any) -> Trial:
        row = models.Sweep.objects.get(id=sweep_id)
        round_()
        runs(row, number)
        reports(row, number, (1, abs(row.trials.get(number=number).parameters["lr"] - 0.01)))
        ends(row, number)
        round_()
        return super().wait(sweep_id, number, every=0)


def test_a_plain_loop_asks_and_tells_and_hears_what_is_pruned(sweeps: Sweeps) -> None:
    stopping = {"rule": "asha", "min_steps": 3, "eta": 2}
    sweep = sweeps.start({**OUTSIDE, "early_stopping": stopping})
    ended = runpy.run_path(str(EXAMPLES / "plain_loop.py"))["search"](sweeps, sweep.id, 12)
    assert {trial.state for trial in ended} == {"pruned", "succeeded"}
    shown = sweeps.show(sweep.id)
    assert (shown.state, shown.trials) == ("finished", 12)
    assert shown.best is not None
    assert shown.best["value"] == min(trial.value for trial in ended if trial.state == "succeeded")


def test_an_optuna_study_runs_its_trials_as_jobs(sweeps: Sweeps) -> None:
    sweep = sweeps.start({**FIELDS, "method": "external"})
    here = WithCluster(sweeps._client)
    study = runpy.run_path(str(EXAMPLES / "optuna_study.py"))["search"](here, sweep.id, 4)
    trials = sweeps.trials(sweep.id)
    assert [trial.value for trial in trials] == [trial.value for trial in study.trials]
    assert len({trial.job for trial in trials}) == 4
    assert sweeps.show(sweep.id).state == "finished"


def test_the_same_key_gives_the_same_trial_and_telling_twice_changes_nothing(sweeps: Sweeps) -> None:
    sweep = sweeps.start(OUTSIDE)
    first = sweeps.ask(sweep.id, key="first")
    assert sweeps.ask(sweep.id, key="first").number == first.number == 1
    told = sweeps.tell(sweep.id, 1, value=0.5)
    assert sweeps.tell(sweep.id, 1, value=0.7) == told


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"lr": 7.0}, "lr is 7.0; it must be a number from 0.0001 to 0.1"),
        ({"lr": "high"}, "lr is 'high'; it must be a number from 0.0001 to 0.1"),
        ({}, "lr is missing; give each parameter a value"),
        ({"lr": 0.01, "width": 3}, "width is not a parameter of the sweep; it has lr"),
    ],
)
def test_a_setting_outside_the_space_is_refused(
    sweeps: Sweeps, parameters: dict[str, Any], sentence: str
) -> None:
    sweep = sweeps.start(OUTSIDE)
    with pytest.raises(ApiError, match=sentence):
        sweeps.ask(sweep.id, parameters)


def test_no_more_trials_are_given_than_may_run_at_once(sweeps: Sweeps) -> None:
    sweep = sweeps.start(OUTSIDE)
    sweeps.ask(sweep.id)
    with pytest.raises(
        ApiError, match="1 are being evaluated and parallel is 1; tell the value of one first"
    ):
        sweeps.ask(sweep.id)
    sweeps.tell(sweep.id, 1, state="failed")
    assert sweeps.ask(sweep.id).number == 2


def test_a_day_with_a_sweep_at_the_command_line(sweeps: Sweeps, tmp_path: Path) -> None:
    def call(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == code, result.output
        return result.output

    (tmp_path / "job.yaml").write_text("command: train\ngpu_type: cpu\n")
    (tmp_path / "sweep.yaml").write_text(
        "name: rates\nspace: {lr: {type: log_uniform, low: 1e-4, high: 1e-1}}\n"
        "objective: {metric: loss}\nbudget: {trials: 4}\njob: job.yaml\n"
    )
    sweep_id = call("sweep", str(tmp_path / "sweep.yaml"), "--detach").split()[0]
    assert "rates" in call("sweep", "list")
    assert "is paused: paused by alice" in call("sweep", "pause", "rates")
    assert "rates is running" in call("sweep", "resume", sweep_id)
    assert "rates is running" in call("sweep", "budget", "rates", "--trials", "1")
    assert "No trial of rates has succeeded yet" in call("sweep", "best", "rates", code=1)
    round_()
    row = models.Sweep.objects.get()
    runs(row, 1)
    reports(row, 1, (1, 0.25))
    ends(row, 1)
    round_()
    assert "hyperparameters.lr=" in call("sweep", "best", "rates")
    assert "succeeded" in call("sweep", "show", "rates")
    assert json.loads(call("sweep", "show", "rates", "--json"))["best"]["value"] == 0.25
    assert "There is no sweep nothing" in call("sweep", "cancel", "nothing", code=1)


def test_the_problems_of_a_sweep_file_are_listed_by_field(sweeps: Sweeps, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "name: rates\nspace: {lr: {type: uniform, low: 2, high: 1}}\nobjectiv: {metric: loss}\nbudget: {trials: 4}\n"
    )
    result = CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml")])
    assert result.exit_code == 1
    assert "  space.lr.high is 1, not more than low 2; raise it" in result.output
    assert "  objectiv is not a field; did you mean objective?" in result.output
