"""A job from submission to its end, through the services, on a real database. The agents' words are said by hand."""

import re
from collections.abc import Callable

import pytest

from platform_core.errors import TrainmasterError
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.spec import SpecError
from tests.webapp.jobs.conftest import SPEC, after_its_pause, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.queries import story
from webapp.jobs import services, workload
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.services import Placing
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import LedgerEntry, Quota

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


def test_a_gang_starts_trains_and_succeeds(submit: Submit) -> None:
    job = submit()
    assert state(job) == "pending"
    tick()
    assert state(job) == "scheduled"
    assert Slot.objects.exclude(attempt_id=None).count() == 4
    assert Member.objects.count() == 2, "four slots are two whole nodes"
    say(job, MemberPhase.PREPARING)
    assert state(job) == "initializing"
    say(job, MemberPhase.RUNNING)
    assert state(job) == "running"
    say(job, MemberPhase.EXITED, 0)
    assert state(job) == "succeeded"
    assert not Slot.objects.exclude(attempt_id=None).exists()
    assert not LedgerEntry.objects.filter(ended_ms=None).exists()
    kinds = [event.kind for event in story(f"job:{job.id}")]
    assert kinds[0] == "Submitted"
    assert "Placed" in kinds
    assert all(event.cause for event in story(f"job:{job.id}"))
    told = {event.kind: event.data for event in story(f"job:{job.id}")}
    assert {part["end"] for part in (told["MemberRunning"], *told["Placed"]["members"])} == {None}
    assert told["MemberExited"]["end"]


def test_both_nodes_of_a_gang_are_in_one_rack_when_it_fits(submit: Submit) -> None:
    submit()
    tick()
    assert len(set(Member.objects.values_list("node__rack", flat=True))) == 1


def test_a_failed_rank_brings_the_whole_gang_back(submit: Submit) -> None:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    say(job, MemberPhase.EXITED, 1, only=1, reason="rank 1 ended with exit code 1")
    row = Job.objects.get(id=job.id)
    assert (row.state, row.stop) == ("running", "restart"), "the other member is being stopped first"
    say(job, MemberPhase.EXITED, 143, only=0)
    assert state(job) == "pending"
    tick()
    row = Job.objects.get(id=job.id)
    assert (row.state, row.wait_code) == ("pending", "restarts_later")
    assert re.fullmatch("restarts in (9|10) s, after a failure", row.wait_sentence)
    after_its_pause(job)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.attempt, row.restarts) == ("scheduled", 2, 1)
    assert set(Member.objects.filter(attempt__number=1).values_list("phase", flat=True)) == {"exited"}


def test_a_script_that_always_fails_stops_after_three_restarts(submit: Submit) -> None:
    job = submit(num_gpus=1)
    for exit_code in (1, 2, 1, 2):
        after_its_pause(job)
        say(job, MemberPhase.RUNNING)
        say(job, MemberPhase.EXITED, exit_code)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.restarts) == ("failed", 3)
    assert "exit code 2" in row.reason


def test_a_wrong_command_is_not_tried_a_third_time(submit: Submit) -> None:
    job = submit(num_gpus=1)
    for _ in range(2):
        after_its_pause(job)
        say(job, MemberPhase.RUNNING)
        say(job, MemberPhase.EXITED, 2)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.restarts) == ("failed", 1)
    assert row.reason.endswith("another restart would not help")


def test_a_job_says_how_often_it_may_be_restarted(submit: Submit) -> None:
    job = submit(num_gpus=1, max_restarts=0)
    tick()
    say(job, MemberPhase.EXITED, 1, end=EndReason.LAUNCHER)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.reason.split("; ")[1]) == ("failed", "max_restarts is 0, so it is not restarted")


def test_a_restarted_job_keeps_the_time_that_it_waited(submit: Submit) -> None:
    job = submit(num_gpus=1)
    Job.objects.filter(id=job.id).update(waiting_since_ms=now_ms() - 3_600_000)
    tick()
    say(job, MemberPhase.RUNNING)
    say(job, MemberPhase.EXITED, 1)
    [waiting] = workload.pending()
    assert waiting.not_before_ms > now_ms()
    assert now_ms() - waiting.waiting_since_ms >= 3_600_000


def test_words_that_arrive_twice_or_late_change_nothing(submit: Submit) -> None:
    job = submit()
    tick()
    for _ in range(2):
        say(job, MemberPhase.RUNNING)
        say(job, MemberPhase.EXITED, 0)
    events = len(story(f"job:{job.id}"))
    say(job, MemberPhase.RUNNING)
    assert state(job) == "succeeded"
    assert len(story(f"job:{job.id}")) == events


def test_cancelling_a_waiting_job_is_immediate_a_running_one_stops_first(submit: Submit, owner: User) -> None:
    waiting = submit()
    services.cancel(actor_of(owner), waiting.id)
    assert state(waiting) == "cancelled"
    running = submit()
    tick()
    say(running, MemberPhase.RUNNING)
    services.cancel(actor_of(owner), running.id)
    assert state(running) == "running"
    say(running, MemberPhase.EXITED, 143)
    assert state(running) == "cancelled"
    with pytest.raises(TrainmasterError, match="cancelled"):
        services.cancel(actor_of(owner), running.id)


def test_a_job_too_large_for_what_is_free_waits_with_numbers(submit: Submit) -> None:
    submit(num_gpus=6)
    tick()
    job = submit(num_gpus=4)
    tick()
    row = Job.objects.get(id=job.id)
    assert row.state == "pending"
    assert row.wait_sentence
    assert row.queue_position == 1


def test_a_job_no_cluster_of_this_size_can_run_says_so(submit: Submit) -> None:
    Quota.objects.update(maximum=100)
    job = submit(num_gpus=64)
    tick()
    row = Job.objects.get(id=job.id)
    assert row.wait_code == "cannot_ever_fit"
    assert "64" in row.wait_sentence


def test_a_request_beyond_the_quota_is_refused_with_the_numbers(submit: Submit) -> None:
    with pytest.raises(TrainmasterError, match="would exceed quota: 12/8 slots of cpu"):
        submit(num_gpus=12)
    assert not Job.objects.exists()


def test_a_lost_node_takes_its_gang_with_it_and_the_rest_stops(submit: Submit, cluster: list[Node]) -> None:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    lost = Member.objects.order_by("rank").first()
    assert lost is not None
    Node.objects.filter(id=lost.node_id).update(state="lost")
    services.node_lost(lost.node_id, 10**13)
    assert Job.objects.get(id=job.id).stop == "restart"
    say(job, MemberPhase.EXITED, 143, only=1)
    assert state(job) == "pending"


def test_the_same_idempotency_key_gives_the_same_job(owner: User) -> None:
    first, new = services.submit(actor_of(owner), SPEC, idempotency_key="k1")
    again, newer = services.submit(actor_of(owner), SPEC, idempotency_key="k1")
    assert (first.id, new, newer) == (again.id, True, False)
    with pytest.raises(TrainmasterError, match="k1"):
        services.submit(actor_of(owner), {**SPEC, "num_gpus": 2}, idempotency_key="k1")


def test_references_to_what_the_team_does_not_have_are_refused_together(owner: User) -> None:
    spec = {**SPEC, "code": "man-0", "dataset": "ds-0", "purpose": "train", "secrets": ["HF_TOKEN"]}
    with pytest.raises(SpecError) as refused:
        services.submit(actor_of(owner), spec)
    assert {problem.field for problem in refused.value.problems} == {"code", "dataset", "secrets"}


def test_a_plan_made_from_an_old_look_starts_nothing(submit: Submit, cluster: list[Node]) -> None:
    job = submit(num_gpus=2)
    seats = ((cluster[0].id, 0, (0, 1)),)
    assert services.place([Placing(job.id, seats, "first")], 10**13) == {job.id}
    other = submit(num_gpus=2)
    stale = [
        Placing(other.id, seats, "from an old snapshot"),
        Placing(job.id, ((cluster[1].id, 0, (0, 1)),), "it runs already"),
    ]
    assert services.place(stale, 10**13) == set()
    assert Attempt.objects.count() == 1


def test_two_gangs_on_one_first_node_get_different_rendezvous_ports(submit: Submit) -> None:
    for _ in range(8):
        submit(num_gpus=1)
    tick()
    by_node: dict[str, list[int]] = {}
    for attempt in Attempt.objects.all():
        first = attempt.members.get(rank=0)
        by_node.setdefault(first.node_id, []).append(attempt.master_port)
    assert all(len(set(ports)) == len(ports) for ports in by_node.values())


def test_agents_that_share_a_machine_share_its_ports(submit: Submit, cluster: list[Node]) -> None:
    Node.objects.update(address="10.0.0.9", rendezvous_port_low=29500, rendezvous_port_high=29507)
    for _ in range(8):
        submit(num_gpus=1)
    tick()
    ports = list(Attempt.objects.values_list("master_port", flat=True))
    assert sorted(ports) == list(range(29500, 29508))
