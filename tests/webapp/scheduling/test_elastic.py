"""Elastic jobs on a cluster of four nodes of two slots: begun with fewer, shrunk for others, grown into idle slots."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import SPEC, after_its_pause, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.scheduling import rounds
from webapp.scheduling.models import Receipt, Round

Submit = Callable[..., Job]


@pytest.fixture
def submit(cluster: list[Node], owner: User) -> Submit:
    Quota.objects.update(maximum=16)

    def submit(name: str, num_gpus: int, **changes: Any) -> Job:
        mapping = {**SPEC, "name": name, "num_gpus": num_gpus, "preemptible": True, **changes}
        return jobs.submit(actor_of(owner), mapping)[0]

    return submit


def slots(job: Job) -> int:
    attempt = Attempt.objects.get(job=job, number=Job.objects.get(id=job.id).attempt)
    return sum(len(member.slots) for member in Member.objects.filter(attempt=attempt))


def run_for_an_hour(*running: Job) -> None:
    for job in running:
        say(job, MemberPhase.RUNNING)
        Job.objects.filter(id=job.id).update(started_ms=now_ms() - HOUR_MS)


def stop_of(job: Job) -> tuple[str, int]:
    row = Job.objects.get(id=job.id)
    return row.stop, row.resize_to


def test_it_begins_with_fewer_and_says_so(submit: Submit) -> None:
    submit("first", 4)
    tick()
    second = submit("second", 8, min_gpus=2)
    tick()
    assert (state(second), slots(second)) == ("scheduled", 4)
    reason = Attempt.objects.get(job=second).placement_reason
    assert "it asked for 8 and starts with 4" in reason


def test_it_is_shrunk_for_a_waiting_job_and_goes_on_smaller_beside_it(submit: Submit) -> None:
    big = submit("big", 8, min_gpus=2, max_runtime_hours=50)
    tick()
    run_for_an_hour(big)
    new = submit("new", 2, max_runtime_hours=20)
    tick()
    assert stop_of(big) == ("preempt", 6)
    receipt = Receipt.objects.get()
    assert (receipt.kind, receipt.for_job) == ("shrunk", new.id)
    tick()
    assert Receipt.objects.count() == 1
    say(big, MemberPhase.EXITED, 0)
    tick()
    assert (slots(big), slots(new), state(big), state(new)) == (6, 2, "scheduled", "scheduled")
    assert Job.objects.get(id=big.id).resize_to == 0
    assert all(rounds.replay(row).same for row in Round.objects.all())


def test_while_it_saves_nobody_else_is_shrunk_for_the_same_job(submit: Submit) -> None:
    one = submit("one", 4, min_gpus=2, max_runtime_hours=50)
    other = submit("other", 4, min_gpus=2, max_runtime_hours=50)
    tick()
    run_for_an_hour(one, other)
    new = submit("new", 2, max_runtime_hours=20)
    for _ in range(3):
        tick()
    assert Receipt.objects.count() == 1
    assert "stopping jobs release slots for it" in Job.objects.get(id=new.id).wait_sentence


def test_it_grows_into_idle_slots_when_nobody_waits(submit: Submit) -> None:
    first = submit("first", 6)
    tick()
    small = submit("small", 8, min_gpus=2, max_runtime_hours=50)
    tick()
    run_for_an_hour(first, small)
    say(first, MemberPhase.EXITED, 0)
    tick()
    assert stop_of(small) == ("preempt", 8)
    assert "6 slots of cpu are idle: it resumes with 8" in Event.objects.get(kind="PreemptRequested").cause
    say(small, MemberPhase.EXITED, 0)
    tick()
    assert (state(small), slots(small)) == ("scheduled", 8)


def test_a_lost_node_makes_it_smaller_and_it_grows_when_the_node_is_back(submit: Submit) -> None:
    job = submit("elastic", 8, min_gpus=2, max_runtime_hours=50)
    tick()
    run_for_an_hour(job)
    lost = Member.objects.get(attempt__job=job, rank=0).node_id
    Node.objects.filter(id=lost).update(state="lost")
    Node.objects.filter(id=lost).update(state="lost")
    jobs.node_lost(lost, now_ms())
    for rank in (1, 2, 3):
        say(job, MemberPhase.EXITED, 143, only=rank)
    after_its_pause(job)
    assert (state(job), slots(job)) == ("scheduled", 6)
    assert not Member.objects.filter(attempt__job=job, attempt__number=2, node=lost).exists()
    Node.objects.filter(id=lost).update(state="ready")
    say(job, MemberPhase.RUNNING)
    tick()
    assert stop_of(job) == ("none", 0)
    Job.objects.filter(id=job.id).update(started_ms=now_ms() - 2 * MINUTE_MS)
    tick()
    assert stop_of(job) == ("preempt", 8)
    say(job, MemberPhase.EXITED, 0)
    tick()
    assert (state(job), slots(job)) == ("scheduled", 8)


@pytest.mark.parametrize("changes", [{"preemptible": False}, {"min_gpus": 8}])
def test_who_did_not_agree_to_it_is_left_alone(
    submit: Submit, changes: dict[str, Any], settings: Any
) -> None:
    settings.SCHEDULING_PREEMPTION = False
    big = submit("big", 8, **{"min_gpus": 2, "max_runtime_hours": 50, **changes})
    tick()
    run_for_an_hour(big)
    submit("new", 2)
    tick()
    assert stop_of(big) == ("none", 0)


def test_an_operator_can_switch_it_off(submit: Submit, settings: Any) -> None:
    settings.SCHEDULING_ELASTIC = settings.SCHEDULING_PREEMPTION = False
    big = submit("big", 8, min_gpus=2, max_runtime_hours=50)
    tick()
    run_for_an_hour(big)
    submit("new", 2)
    tick()
    assert stop_of(big) == ("none", 0)
