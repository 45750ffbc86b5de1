"""A sweep of four trials on a small cluster, and words for what their jobs would say."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import cluster, say, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs import services as jobs
from webapp.jobs.models import Job, Member
from webapp.sweeps import coordination, services
from webapp.sweeps.models import Sweep, Trial

__all__ = ["cluster"]

FIELDS: dict[str, Any] = {
    "name": "lr",
    "team": "vision",
    "method": "random",
    "seed": 1,
    "space": {"lr": {"type": "log_uniform", "low": 1e-4, "high": 1e-1}},
    "objective": {"metric": "loss"},
    "budget": {"trials": 4},
    "parallel": 2,
    "job": {"command": "train.py", "gpu_type": "cpu", "hyperparameters": {"width": 64}},
}


@pytest.fixture
def sweep(cluster: Any, owner: User) -> Callable[..., Sweep]:
    def create(**changes: Any) -> Sweep:
        return services.create(actor_of(owner), {**FIELDS, **changes})[0]

    return create


def round_() -> None:
    """The scheduler places what waits, and the coordinator looks at every sweep."""
    assert coordination.coordinate()
    tick()
    assert coordination.coordinate()


def again(row: Sweep) -> Sweep:
    return Sweep.objects.get(id=row.id)


def trial(row: Sweep, number: int) -> Trial:
    return Trial.objects.select_related("job").get(sweep=row, number=number)


def job_of(row: Sweep, number: int) -> Job:
    job = trial(row, number).job
    assert job is not None
    return Job.objects.get(id=job.id)


def runs(row: Sweep, *numbers: int) -> None:
    for number in numbers:
        say(job_of(row, number), MemberPhase.RUNNING)


def reports(row: Sweep, number: int, *points: tuple[int, float], key: str = "loss") -> None:
    job = job_of(row, number)
    experiments.ingest(job.id, 1, [Point(key, step, value, now_ms()) for step, value in points])


def ends(row: Sweep, number: int, exit_code: int = 0) -> None:
    """All its ranks ended, and the agents have sent all that they had."""
    job = job_of(row, number)
    say(job, MemberPhase.EXITED, exit_code)
    members = Member.objects.filter(attempt__job=job)
    jobs.mark_drained({(member.attempt_id, member.node_id) for member in members})
