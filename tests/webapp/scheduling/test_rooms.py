"""A gang for which others were moved keeps the room until it starts, and the moved their new places."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings

from platform_core.cluster.health import NodeState
from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import Quota
from webapp.scheduling import rounds
from webapp.scheduling.models import Round

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def submit(owner: User, settings: LazySettings) -> Submit:
    settings.SCHEDULING_PREEMPTION = True
    settings.SUSPECT_AFTER_SECONDS, settings.LOST_AFTER_SECONDS = (
        3600,
        7200,
    )  # nobody beats here, and a busy machine takes long
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
    for _ in range(3):
        tick()
    assert [state(job) for job in later].count("scheduled") == 2, "one of three free slots is the moved one's"
    assert all(nodes_of(job) != gang.room_on for job in later)
    assert all(rounds.replay(row).same for row in Round.objects.all())
    say(moved, MemberPhase.EXITED, 143)
    tick()
    for job, whose in ((gang, gang), (moved, moved)):
        assert (state(job), nodes_of(job)) == ("scheduled", whose.room_on)
        assert list(Job.objects.filter(id=job.id).values_list("room_on", "room_until_ms")) == [([], None)]
    assert all(rounds.replay(row).same for row in Round.objects.all())


def free_for(submit: Submit) -> int:
    """How many of many small jobs find a slot."""
    later = [submit(name=f"later-{number}", num_gpus=1) for number in range(8)]
    tick()
    return [state(job) for job in later].count("scheduled")


def test_a_moved_one_that_is_cancelled_while_it_saves_leaves_its_new_place_to_others(
    gang: Job, submit: Submit, owner: User
) -> None:
    jobs.cancel(actor_of(owner), the_moved().id)
    assert free_for(submit) == 3


def test_the_new_place_of_one_that_takes_too_long_to_save_is_free_again(
    gang: Job, submit: Submit, settings: LazySettings
) -> None:
    told_ms = Round.objects.get(preempted=1).at_ms
    assert the_moved().room_until_ms == told_ms + 60_000 + settings.STOP_GRACE_SECONDS * 1000
    Job.objects.filter(id=the_moved().id).update(room_until_ms=now_ms() - 1)
    assert free_for(submit) == 3


def test_the_new_place_is_no_more_where_its_node_is_drained(gang: Job, submit: Submit) -> None:
    Node.objects.filter(id__in=the_moved().room_on).update(state=NodeState.DRAINING)
    assert free_for(submit) == 2, "no slot of another node is kept instead"


def test_the_time_that_a_place_is_kept_goes_with_the_room_of_the_moved_one_only(gang: Job) -> None:
    assert (gang.room_until_ms, the_moved().room_until_ms is None) == (None, False)


def test_one_more_urgent_may_still_take_it(gang: Job, lead: User) -> None:
    moved = the_moved()
    urgent = [
        jobs.submit(actor_of(lead), {**SPEC, "name": f"urgent-{number}", "num_gpus": 1, "priority": 10})[0]
        for number in range(4)
    ]
    say(moved, MemberPhase.EXITED, 143)
    tick()
    assert {state(job) for job in urgent} == {"scheduled"}
    assert state(gang) == "pending"


def test_a_gang_that_is_cancelled_leaves_the_room_to_the_next(gang: Job, submit: Submit, owner: User) -> None:
    jobs.cancel(actor_of(owner), gang.id)
    moved = the_moved()
    later: list[Any] = [submit(name=f"later-{number}", num_gpus=1) for number in range(4)]
    tick()
    assert [state(job) for job in later].count("scheduled") == 3
    say(moved, MemberPhase.EXITED, 143)
    tick()
    assert {state(job) for job in (*later, moved)} == {"scheduled"}
