"""A small cluster, and words for what its agents would say."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.jobs.ends import EndReason
from platform_core.jobs.events import MemberObserved
from platform_core.jobs.job import MemberPhase
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.scheduling import services as scheduling


@pytest.fixture
def cluster(node: Callable[..., Node], vision: Team, quota: Callable[..., Quota]) -> list[Node]:
    """Four nodes of two slots in two racks, and a quota of eight for vision."""
    quota(vision)
    return [node(f"node-{index}", rack=f"rack-{index % 2}") for index in range(4)]


SPEC: dict[str, Any] = {
    "name": "resnet-baseline",
    "team": "vision",
    "command": "train.py --steps 10",
    "num_gpus": 4,
    "gpu_type": "cpu",
    "max_runtime_hours": 1,
}


@pytest.fixture
def submit(owner: User) -> Callable[..., Job]:
    def submit(**changes: Any) -> Job:
        job, _ = services.submit(actor_of(owner), {**SPEC, **changes})
        return job

    return submit


def tick() -> None:
    assert scheduling.tick()


def say(
    job: Job,
    phase: MemberPhase,
    exit_code: int | None = None,
    *,
    only: int | None = None,
    reason: str = "",
    end: EndReason = EndReason.SCRIPT_ERROR,
) -> None:
    """Every member (or the one of this rank) of the job's newest attempt reports this phase."""
    attempt = Attempt.objects.get(job=job, number=Job.objects.get(id=job.id).attempt)
    for member in Member.objects.filter(attempt=attempt).order_by("rank"):
        if only is None or member.rank == only:
            services.observe(
                job.id,
                MemberObserved(
                    at_ms=now_ms(), actor=f"node:{member.node_id}", attempt=attempt.number, node=member.node_id,
                    phase=phase, exit_code=exit_code, reason=reason, end=end,
                ),
            )  # fmt: skip


def after_its_pause(job: Job) -> None:
    """The time until it restarts is over."""
    Job.objects.filter(id=job.id).update(not_before_ms=0)
    tick()


def state(job: Job) -> str:
    return str(Job.objects.get(id=job.id).state)
