"""A gang that restarts keeps the slots of its healthy nodes while others wait."""

from collections.abc import Callable

import pytest

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.kept_slots import KEPT_MS
from tests.webapp.jobs.conftest import after_its_pause, say, state, tick
from webapp.base.identity import now_ms
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes.models import Node
from webapp.quotas.models import Quota

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def gang(submit: Submit) -> Job:
    """It ran on two of four nodes and has failed; smaller jobs that have waited for longer want all slots there are."""
    Quota.objects.update(maximum=16)
    job = submit(name="gang", num_gpus=4)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def fill(submit: Submit) -> list[Job]:
    return [submit(name=f"small-{number}", num_gpus=1) for number in range(8)]


def nodes_of(job: Job) -> set[str]:
    newest = Attempt.objects.filter(job=job).order_by("-number")[:1]
    return set(Member.objects.filter(attempt__in=newest).values_list("node_id", flat=True))


def test_it_restarts_where_it_ran_although_others_wait_for_slots(gang: Job, submit: Submit) -> None:
    ran_on = nodes_of(gang)
    small = fill(submit)
    say(gang, MemberPhase.EXITED, 1, end=EndReason.SCRIPT_ERROR)
    tick()
    assert [state(job) for job in small].count("scheduled") == 4, "the slots of the two other nodes"
    after_its_pause(gang)
    assert (state(gang), nodes_of(gang)) == ("scheduled", ran_on)
    assert Member.objects.filter(attempt__job__in=small, node__in=ran_on).count() == 0


def test_the_slots_of_a_member_that_ended_first_wait_for_the_others(gang: Job, submit: Submit) -> None:
    small = fill(submit)
    say(gang, MemberPhase.EXITED, 1, only=0, end=EndReason.SCRIPT_ERROR)
    tick()
    assert [state(job) for job in small].count("scheduled") == 4
    say(gang, MemberPhase.EXITED, 143, only=1, end=EndReason.STOPPED)
    tick()
    assert [state(job) for job in small].count("scheduled") == 4


def test_its_slots_are_for_all_once_its_time_is_over(gang: Job, submit: Submit) -> None:
    say(gang, MemberPhase.EXITED, 1, end=EndReason.SCRIPT_ERROR)
    Attempt.objects.filter(job=gang).update(ended_ms=now_ms() - KEPT_MS)
    Job.objects.filter(id=gang.id).update(not_before_ms=now_ms() + KEPT_MS)
    small = fill(submit)
    tick()
    assert [state(job) for job in small].count("scheduled") == 8
    assert Node.objects.count() == 4


def test_a_killed_rank_restarts_at_once(gang: Job) -> None:
    say(gang, MemberPhase.EXITED, 137, only=0, end=EndReason.KILLED)
    say(gang, MemberPhase.EXITED, 143, only=1, end=EndReason.STOPPED)
    tick()
    assert state(gang) == "scheduled"
