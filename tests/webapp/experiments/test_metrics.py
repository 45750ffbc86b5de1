"""What scripts report becomes curves without a gap and without a step told twice."""

import json
from collections.abc import Callable

import pytest

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import after_its_pause, say, tick
from tests.webapp.metrics.reading import rows
from webapp.accounts.models import User
from webapp.experiments.models import Run
from webapp.jobs.models import Attempt, Job
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")


def lines(*steps: int, loss: float = 2.0) -> bytes:
    said = [
        {"kind": "metrics", "at_ms": 1000 + step, "step": step, "values": {"loss": loss, "lr": 0.1}}
        for step in steps
    ]
    return "\n".join(map(json.dumps, said)).encode()


def test_steps_repeated_after_a_restart_are_those_of_the_later_attempt(submit: Callable[..., Job]) -> None:
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    first = Attempt.objects.get(number=1)
    spool.ingest(first, "node-x", lines(1, 2, 3, 4))
    say(job, MemberPhase.EXITED, 137)
    after_its_pause(job)
    say(job, MemberPhase.RUNNING)
    spool.ingest(Attempt.objects.get(number=2), "node-x", lines(3, 4, 5, loss=1.0))
    spool.ingest(first, "node-x", lines(4, loss=9.0))
    assert [(step, value) for step, value, _ in rows(job.id, "loss")] == [
        (1, 2.0), (2, 2.0), (3, 1.0), (4, 1.0), (5, 1.0)
    ]  # fmt: skip


def test_a_broken_line_costs_only_itself(submit: Callable[..., Job]) -> None:
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    spool.ingest(Attempt.objects.get(), "node-x", b'{"kind": "metrics"\n[]\n7\n' + lines(1))
    assert len(rows(job.id, "loss")) == 1
    assert Job.objects.get(id=job.id).step == 1


def test_the_run_knows_what_it_was_made_of(submit: Callable[..., Job], owner: User) -> None:
    job = submit(num_gpus=1, hyperparameters={"lr": 0.1}, seed=7, tags=["baseline"], experiment="bytes")
    tick()
    said = {
        "kind": "init",
        "at_ms": 1,
        "step_total": 400,
        "params": {"layers": 4},
        "packages": {"torch": "2.13.0"},
    }
    spool.ingest(Attempt.objects.get(), "node-x", json.dumps(said).encode())
    run = Run.objects.get(id=job.id)
    assert run.experiment.name == "bytes"
    assert run.parameters["lr"] == 0.1
    assert run.parameters["layers"] == 4
    assert run.lineage["reported_packages"] == {"torch": "2.13.0"}
    assert Job.objects.get(id=job.id).total_steps == 400


def test_two_runs_are_compared_by_what_differs(
    submit: Callable[..., Job], owner: User, browser: Callable[..., object]
) -> None:
    runs = [submit(num_gpus=1, name=f"lr-{lr}", hyperparameters={"lr": lr, "layers": 4}) for lr in (0.1, 0.2)]
    tick()
    for index, job in enumerate(runs):
        say(job, MemberPhase.RUNNING)
        spool.ingest(Attempt.objects.get(job=job), "node-x", lines(1, 2, loss=3.0 - index))
    page = browser(owner).get(f"/experiments/compare/?runs={runs[0].id},{runs[1].id}")  # type: ignore[attr-defined]
    text = page.content.decode()
    assert "Differences: lr." in text
    assert [difference["name"] for difference in page.context["differences"]()] == ["lr"]
    loss = next(final for final in page.context["finals"]() if final["name"] == "loss")
    assert [value["best"] for value in loss["values"]] == [False, True]
    assert (
        browser(owner).get(f"/experiments/{Run.objects.get(id=runs[0].id).experiment_id}/").status_code == 200
    )  # type: ignore[attr-defined]
