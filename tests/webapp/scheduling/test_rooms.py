"""A gang for which others were moved keeps the room until it starts, however long they take to stop."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.clusters.models import Slot
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, Member
from webapp.live.identity import now_ms
from webapp.quotas.models import Quota

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def submit(owner: User, settings: LazySettings) -> Submit:
    settings.SCHEDULING_PREEMPTION = True
    settings.SCHEDULING_POLICY = "size_and_wait"  # smaller jobs come before the gang
    Quota.objects.update(maximum=16)
    return lambda **changes: jobs.submit(actor_of(owner), {**SPEC, "preemptible": True, **changes})[0]


@pytest.fixture
def gang(submit: Submit) -> Job:
    """Of each node of two one slot was held for an hour; one of these jobs is moved for a gang that wants a node."""
    small = [submit(name=f"old-{number}", num_gpus=1, max_runtime_hours=100) for number in range(8)]
    tick()
    for job in small:
        say(job, MemberPhase.RUNNING)
    for slot in Slot.objects.filter(index=1):
        say(Job.objects.get(id=Attempt.objects.get(id=slot.attempt_id).job_id), MemberPhase.EXITED, 0)
    Job.objects.update(started_ms=now_ms() - HOUR_MS)
    job = submit(name="gang", num_gpus=2, max_runtime_hours=100)
    tick()
    return Job.objects.get(id=job.id)


def the_moved() -> Job:
    return Job.objects.get(stop="preempt")


def nodes_of(job: Job) -> list[str]:
    return list(Member.objects.filter(attempt__job=job, phase="assigned").values_list("node_id", flat=True))


def test_the_room_is_known_by_its_nodes(gang: Job) -> None:
    moved = Member.objects.get(attempt__job=the_moved(), phase="running")
    assert gang.room_on == [moved.node_id]


def test_smaller_jobs_that_come_meanwhile_find_their_slots_elsewhere_or_wait(
    gang: Job, submit: Submit
) -> None:
    moved = the_moved()
    later = [submit(name=f"later-{number}", num_gpus=1) for number in range(6)]
    tick()
    assert [state(job) for job in later].count("scheduled") == 3, "the free slots of the other three nodes"
    assert all(nodes_of(job) != gang.room_on for job in later)
    say(moved, MemberPhase.EXITED, 143)
    tick()
    assert (state(gang), nodes_of(gang)) == ("scheduled", gang.room_on)
    assert Job.objects.get(id=gang.id).room_on == []
    assert state(moved) == "preempted", "what moved away does not take its slot again"


def test_one_more_urgent_may_still_take_it(gang: Job, submit: Submit) -> None:
    moved = the_moved()
    urgent = [submit(name=f"urgent-{number}", num_gpus=1, priority=10) for number in range(4)]
    say(moved, MemberPhase.EXITED, 143)
    tick()
    assert {state(job) for job in urgent} == {"scheduled"}
    assert state(gang) == "pending"


def test_a_gang_that_is_cancelled_leaves_the_room_to_the_next(gang: Job, submit: Submit, owner: User) -> None:
    jobs.cancel(actor_of(owner), gang.id)
    later: list[Any] = [submit(name=f"later-{number}", num_gpus=1) for number in range(4)]
    tick()
    assert {state(job) for job in later} == {"scheduled"}
