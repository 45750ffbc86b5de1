"""How long a job has between SIGTERM and SIGKILL: what the core decides is what its nodes are told."""

from collections.abc import Callable

import pytest
from django.conf import LazySettings

from platform_core.jobs import events as ev
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.node.wanted import WantedAction
from platform_core.scheduling.decisions import StopKind
from tests.webapp.jobs.conftest import say, tick
from trainmaster_wire.agent.v1 import session_pb2
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.services import Preemption
from webapp.nodes import services as clusters
from webapp.nodes.models import Node
from webapp.rpc.observed import Report, observe
from webapp.rpc.wanted import wanted_states

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def job(submit: Submit) -> Job:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def graces(job: Job) -> set[int]:
    """Seconds that its nodes are told, of those that shall stop."""
    nodes = sorted(Member.objects.filter(attempt__job=job).values_list("node_id", flat=True))
    wanted = [attempt for state in wanted_states(nodes) for attempt in state.attempts]
    return {each.grace_seconds for each in wanted if each.action is WantedAction.STOP}


def test_a_cancelled_job_has_half_a_minute(job: Job, owner: User) -> None:
    services.cancel(actor_of(owner), job.id)
    assert graces(job) == {30}


def test_a_preempted_job_has_a_minute_to_save(job: Job) -> None:
    services.preempt(job.id, Preemption(StopKind.EVICTED, "a more urgent job"), now_ms())
    assert graces(job) == {60}


def test_a_job_over_its_time_limit_has_a_minute_to_save(job: Job) -> None:
    services.stop_overdue(now_ms() + 2 * 3_600_000)
    assert graces(job) == {60}


def test_the_peers_of_a_failed_rank_are_gone_soon(job: Job) -> None:
    say(job, MemberPhase.EXITED, 1, only=1)
    assert graces(job) == {10}


def test_the_operator_says_how_long_a_preempted_job_may_save(job: Job, settings: LazySettings) -> None:
    settings.STOP_GRACE_SECONDS = 300
    services.preempt(job.id, Preemption(StopKind.EVICTED, "a more urgent job"), now_ms())
    assert graces(job) == {300}


def test_a_job_whose_saves_take_long_has_longer_to_save(job: Job) -> None:
    saved = ev.CheckpointSaved(at_ms=now_ms(), attempt=1, step=5, checkpoint="ckpt-slow", save_ms=120_000)
    services.observe(job.id, saved)
    services.preempt(job.id, Preemption(StopKind.EVICTED, "a more urgent job"), now_ms())
    assert graces(job) == {180}


@pytest.mark.parametrize(("notice", "grace"), [(120, 120), (45, 45), (24 * 3600, 900)])
def test_a_notice_leaves_what_is_left_of_it(job: Job, admin: User, notice: int, grace: int) -> None:
    node = Member.objects.filter(attempt__job=job).values_list("node_id", flat=True)[0]
    clusters.give_notice(actor_of(admin), node, notice)
    assert graces(job) == {grace}


def test_a_node_that_was_resumed_hears_the_next_notice(job: Job, admin: User) -> None:
    node = Member.objects.filter(attempt__job=job).values_list("node_id", flat=True)[0]
    Node.objects.filter(id=node).update(leaving_ms=1)  # an earlier notice, before the job came
    clusters.resume(actor_of(admin), node)
    clusters.give_notice(actor_of(admin), node, 120)
    assert graces(job) == {120}


def test_what_ended_a_member_is_a_field_and_its_reason_a_sentence(job: Job) -> None:
    member = Member.objects.filter(attempt__job=job).order_by("rank")[0]
    ended = session_pb2.AttemptObserved(
        attempt_id=Attempt.objects.get(job=job).id, phase=session_pb2.AttemptObserved.EXITED, exit_code=125,
        reason="The disk is full.", end=session_pb2.AttemptObserved.LAUNCHER, uplink_drained=True,
    )  # fmt: skip
    observe([Report(member.node_id, session_pb2.Observed(attempts=[ended]), complete=False)])
    member.refresh_from_db()
    assert (member.end, member.reason) == (EndReason.LAUNCHER, "The disk is full.")
    assert Job.objects.get(id=job.id).reason.endswith("could not run rank 0: The disk is full")
