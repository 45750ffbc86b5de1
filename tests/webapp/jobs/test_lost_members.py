"""A container engine that is gone for good: its agent lives, and will never say that the attempt has stopped."""

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.queries import story
from webapp.jobs import lost_members, services
from webapp.jobs.models import Job, Member
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import LedgerEntry

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def stuck(submit: Submit, cast: Cast) -> Job:
    """Cancelled; one of its two nodes has stopped, the other says nothing."""
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    services.cancel(actor_of(cast.owner), job.id)
    say(job, MemberPhase.EXITED, 143, only=0)
    assert Job.objects.get(id=job.id).stop == "cancel"
    return job


def silent_node() -> Node:
    return Node.objects.get(id=Member.objects.get(rank=1).node_id)


def test_an_operator_ends_what_no_node_will_end(stuck: Job, cast: Cast) -> None:
    nodes = lost_members.declare_lost(actor_of(cast.admin), stuck.id, "its engine does not start any more")
    assert nodes == (silent_node().id,)
    assert state(stuck) == "cancelled"
    assert not Slot.objects.exclude(attempt_id=None).exists()
    assert not LedgerEntry.objects.filter(ended_ms=None).exists()


def test_the_node_takes_no_work_until_somebody_has_looked(stuck: Job, cast: Cast) -> None:
    before = silent_node().wanted_revision
    lost_members.declare_lost(actor_of(cast.admin), stuck.id)
    assert silent_node().drain_requested
    assert silent_node().wanted_revision > before, "its agent learns that nothing of the attempt is wanted"


def test_it_stands_in_the_story_who_said_so_and_why(stuck: Job, cast: Cast) -> None:
    lost_members.declare_lost(actor_of(cast.admin), stuck.id, "its engine is gone")
    told = next(event for event in story(f"job:{stuck.id}") if event.kind == "NodeLost")
    assert told.actor == "user:root"
    assert told.cause == f"{silent_node().hostname} was lost: declared lost by root, its engine is gone"


def test_a_preempted_attempt_that_is_lost_lets_its_job_go_on_elsewhere(submit: Submit, cast: Cast) -> None:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    assert services.preempt(job.id, services.Preemption(StopKind.EVICTED, "its slots are wanted"), 10**13)
    assert len(lost_members.declare_lost(actor_of(cast.admin), job.id)) == 2
    assert state(job) in ("pending", "preempted")


@pytest.mark.parametrize("who", ["owner", "member", "lead", "outsider"])
def test_nobody_but_an_admin_says_so(who: str, stuck: Job, cast: Cast) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        lost_members.declare_lost(actor_of(getattr(cast, who)), stuck.id)
    assert refusal.value.code == "not_allowed"
    assert Job.objects.get(id=stuck.id).stop == "cancel"


def test_a_job_that_nobody_stops_is_not_lost(submit: Submit, cast: Cast) -> None:
    job = submit()
    tick()
    with pytest.raises(TrainmasterError, match="cancel it first"):
        lost_members.declare_lost(actor_of(cast.admin), job.id)


def test_the_button_is_there_for_an_admin_while_it_is_stopping(
    stuck: Job, cast: Cast, browser: Callable[[User], Client]
) -> None:
    assert "Declare lost" not in browser(cast.lead).get(f"/jobs/{stuck.id}/").content.decode()
    assert "Declare lost" in browser(cast.admin).get(f"/jobs/{stuck.id}/").content.decode()
    page = browser(cast.admin).post(f"/jobs/{stuck.id}/lost/", follow=True).content.decode()
    assert f"Its part on {silent_node().hostname} is taken as lost." in page
    assert "Declare lost" not in page


def test_over_rest_it_takes_a_token_of_the_scope_admin(
    stuck: Job, cast: Cast, api: Callable[..., APIClient], admin_api: Callable[[User], APIClient]
) -> None:
    address, body = f"/api/v1/training-jobs/{stuck.id}/lost", {"cause": "its engine is gone"}
    assert api(cast.admin).post(address, body, format="json").status_code == 403
    answer = admin_api(cast.admin).post(address, body, format="json")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")


def test_an_operator_says_it_at_the_command_line(stuck: Job) -> None:
    out = StringIO()
    call_command("declare_lost", stuck.id, "--by", "root", "--because", "its engine is gone", stdout=out)
    assert silent_node().hostname in out.getvalue()
    with pytest.raises(CommandError, match="cancel it first"):
        call_command("declare_lost", stuck.id, "--by", "root")


@pytest.fixture
def half(submit: Submit) -> Job:
    """One of its two nodes has lost its connections to the other, which says nothing."""
    job = submit(max_restarts=3, when_cut_off="overlap")
    tick()
    say(job, MemberPhase.RUNNING)
    say(job, MemberPhase.EXITED, 1, only=0, reason="connection reset by peer", end=EndReason.NETWORK)
    return job


def test_a_failed_gang_does_not_wait_until_its_silent_node_counts_as_lost(half: Job) -> None:
    node = silent_node()
    before = node.wanted_revision
    Node.objects.filter(id=node.id).update(state="suspect", state_reason="no heartbeat for 11 s")
    lost_members.end_on_silent_nodes(10**13)
    row = Job.objects.get(id=half.id)
    assert (row.state, row.stop) == ("pending", "none")
    assert row.reason.startswith(f"rank 1 on {node.hostname} was lost: no heartbeat for 11 s; restart 1 of")
    assert silent_node().wanted_revision > before, "when it is heard again it ends its ranks"
    assert not Slot.objects.exclude(attempt_id=None).exists()


@pytest.mark.parametrize("choice", ["stop", "continue"])
def test_a_gang_that_may_not_run_twice_waits_for_its_silent_node(submit: Submit, choice: str) -> None:
    """Its ranks there may have lost nothing but their peers and the platform."""
    job = submit(max_restarts=3, when_cut_off=choice)
    tick()
    say(job, MemberPhase.RUNNING)
    say(job, MemberPhase.EXITED, 1, only=0, reason="connection reset by peer", end=EndReason.NETWORK)
    Node.objects.filter(id=silent_node().id).update(state="suspect")
    lost_members.end_on_silent_nodes(10**13)
    assert Job.objects.get(id=job.id).stop == "restart"


@pytest.fixture
def cut_off(submit: Submit) -> Job:
    """It prefers to go on, and one of its two nodes counts as lost."""
    job = submit(max_restarts=3, when_cut_off="continue")
    tick()
    say(job, MemberPhase.RUNNING)
    Node.objects.filter(id=silent_node().id).update(state="lost", state_since_ms=now_ms())
    services.node_lost(silent_node().id, now_ms())
    services.node_lost(silent_node().id, now_ms())
    return job


def test_a_job_that_continues_when_cut_off_is_not_placed_elsewhere(cut_off: Job) -> None:
    assert state(cut_off) == "running"
    assert Slot.objects.filter(node=silent_node()).exclude(attempt_id=None).exists()
    told = [event for event in story(f"job:{cut_off.id}") if event.kind == "CutOff"]
    assert [event.cause for event in told] == [
        f"{silent_node().hostname} is lost; its ranks there may go on, so they start elsewhere only once it is back, "
        "or an operator declares them lost"
    ]


def test_an_operator_declares_lost_what_was_cut_off(cut_off: Job, cast: Cast) -> None:
    lost = silent_node()
    assert "Declare lost" in lost_page(cut_off, cast)
    assert lost_members.declare_lost(actor_of(cast.admin), cut_off.id, "it has no power") == (lost.id,)
    say(cut_off, MemberPhase.EXITED, 143, only=0)
    assert Job.objects.get(id=cut_off.id).restarts == 1


def lost_page(job: Job, cast: Cast) -> str:
    client = Client()
    client.force_login(cast.admin)
    return client.get(f"/jobs/{job.id}/").content.decode()


def test_a_node_that_came_back_meanwhile_keeps_what_it_runs(submit: Submit) -> None:
    """Between the sweep that lost it and what follows it has said hello: its new order may have started."""
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    services.node_lost(silent_node().id, now_ms())
    assert state(job) == "running"
    assert Job.objects.get(id=job.id).stop == "none"


def test_nodes_that_are_heard_are_waited_for(half: Job) -> None:
    lost_members.end_on_silent_nodes(10**13)
    elsewhere = Node.objects.exclude(id__in=Member.objects.values("node_id"))
    elsewhere.update(state="suspect")
    lost_members.end_on_silent_nodes(10**13)
    assert Job.objects.get(id=half.id).stop == "restart"


def test_a_gang_whose_silent_node_may_still_save_is_waited_for(submit: Submit) -> None:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    services.preempt(job.id, services.Preemption(StopKind.EVICTED, "its slots are wanted"), 10**13)
    Node.objects.update(state="suspect")
    lost_members.end_on_silent_nodes(10**13)
    assert Job.objects.get(id=job.id).stop == "preempt"
