"""Room is made for a more deserving job: the victim saves, waits and resumes, and a receipt says what it cost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.events import CheckpointSaved
from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.policy import PRODUCTION
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base import lease
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job
from webapp.quotas.models import Quota
from webapp.scheduling import rounds
from webapp.scheduling import services as scheduling
from webapp.scheduling.models import Receipt, Round

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]


@pytest.fixture(autouse=True)
def preempting(settings: Any, cluster: object) -> None:
    settings.SCHEDULING_PREEMPTION = True
    Quota.objects.update(maximum=16)


def submit(who: User, name: str, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "name": name, "preemptible": True, **changes})[0]


@pytest.fixture
def background(owner: User) -> Job:
    """It has held all eight slots for an hour and may be stopped."""
    job = submit(owner, "background", num_gpus=8, priority=90, max_runtime_hours=100)
    tick()
    say(job, MemberPhase.RUNNING)
    Job.objects.filter(id=job.id).update(started_ms=now_ms() - HOUR_MS)
    return job


@pytest.fixture
def urgent(background: Job, member: User) -> Job:
    return submit(member, "urgent", num_gpus=8, priority=50)


def test_a_less_urgent_job_makes_room_and_comes_back(background: Job, urgent: Job) -> None:
    tick()
    assert Job.objects.get(id=background.id).stop == "preempt"
    assert state(urgent) == "pending"
    say(background, MemberPhase.EXITED, 0)
    assert state(background) == "preempted"
    tick()
    assert state(urgent) == "scheduled"
    say(urgent, MemberPhase.RUNNING)
    say(urgent, MemberPhase.EXITED, 0)
    tick()
    assert state(background) == "scheduled"
    assert Attempt.objects.filter(job=background).count() == 2


def test_the_receipt_says_what_was_lost_since_the_last_checkpoint(background: Job, urgent: Job) -> None:
    saved = CheckpointSaved(at_ms=now_ms() - HOUR_MS // 2, attempt=1, step=100, checkpoint="ckpt-1")
    jobs.observe(background.id, saved)
    tick()
    receipt = Receipt.objects.get()
    assert (receipt.job_id, receipt.for_job, receipt.kind) == (background.id, urgent.id, "evicted")
    assert 8 * HOUR_MS // 2 <= receipt.lost_gpu_ms < 8 * HOUR_MS * 3 // 4


def test_equals_do_not_stop_each_other_in_turn(background: Job, member: User) -> None:
    """Not even where one has waited for an hour and the other had just begun."""
    equal = submit(member, "equal", num_gpus=8, priority=background.priority, max_runtime_hours=100)
    Job.objects.filter(id=equal.id).update(waiting_since_ms=now_ms() - HOUR_MS)
    for _ in range(3):
        tick()
    assert not Receipt.objects.exists()
    assert state(equal) == "pending"


@pytest.fixture
def much_shorter(background: Job, member: User) -> Job:
    """As urgent as the one that runs."""
    return submit(member, "shorter", num_gpus=8, priority=background.priority, max_runtime_hours=1)


def test_a_much_longer_equal_saves_and_makes_room(background: Job, much_shorter: Job) -> None:
    tick()
    receipt = Receipt.objects.get()
    assert (receipt.job_id, receipt.for_job, receipt.kind) == (background.id, much_shorter.id, "evicted")
    say(background, MemberPhase.EXITED, 0)
    for _ in range(3):
        tick()
    assert (state(much_shorter), state(background)) == ("scheduled", "preempted")
    assert Receipt.objects.count() == 1


@pytest.mark.parametrize("before", [PRODUCTION.most_preemptions - 1, PRODUCTION.most_preemptions])
def test_one_that_has_made_way_often_enough_does_so_for_the_more_urgent_only(
    background: Job, much_shorter: Job, member: User, before: int
) -> None:
    running = Attempt.objects.get(job=background)
    Attempt.objects.filter(id=running.id).update(number=before + 1)
    Job.objects.filter(id=background.id).update(attempt=before + 1)
    for number in range(1, before + 1):
        Attempt.objects.create(
            id=f"att-{number}", job=background, number=number, placed_ms=0, ended_ms=0, master_port=1,
            outcome="preempted: saved",
        )  # fmt: skip
    tick()
    assert Receipt.objects.exists() is (before < PRODUCTION.most_preemptions)
    submit(member, "urgent", num_gpus=8, priority=50)
    tick()
    assert Job.objects.get(id=background.id).stop == "preempt"


def test_whoever_stops_already_is_not_stopped_again(background: Job, urgent: Job) -> None:
    for _ in range(3):
        tick()
    assert Receipt.objects.count() == 1


def test_nobody_is_stopped_where_the_operator_does_not_want_it(
    background: Job, urgent: Job, settings: Any
) -> None:
    settings.SCHEDULING_PREEMPTION = False
    tick()
    assert Job.objects.get(id=background.id).stop == "none"


def test_a_job_that_may_not_be_preempted_is_left_alone(background: Job, member: User) -> None:
    Job.objects.filter(id=background.id).update(spec={**background.spec, "preemptible": False})
    submit(member, "urgent", num_gpus=8, priority=50)
    tick()
    assert not Receipt.objects.exists()


def test_a_round_that_only_stops_somebody_is_kept_and_replayed(background: Job, urgent: Job) -> None:
    tick()
    newest = Round.objects.order_by("-id")[0]
    assert (newest.started, newest.preempted) == (0, 1)
    assert rounds.replay(newest).same


def test_an_old_leader_stops_nobody(background: Job, urgent: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = scheduling.stop

    def after_a_hand_over(*args: Any) -> None:
        lease.Lease.objects.update(fencing=99)
        stop(*args)

    monkeypatch.setattr(scheduling, "stop", after_a_hand_over)
    tick()
    assert Job.objects.get(id=background.id).stop == "none"
    assert not Receipt.objects.exists()


def test_both_teams_find_the_receipt_and_its_sum_beside_their_costs(
    background: Job, urgent: Job, browser: Browser, owner: User, outsider: User
) -> None:
    tick()
    Receipt.objects.update(for_team="nlp", lost_gpu_ms=3 * HOUR_MS)
    mine = browser(owner).get("/teams/vision/costs/").content.decode()
    assert "Vision lost 10,800 GPU-seconds of work to preemption; its own jobs caused the loss of 0." in mine
    assert f"/jobs/{background.id}/" in mine
    theirs = browser(outsider).get("/teams/nlp/costs/").content.decode()
    assert (
        "Language lost 0 GPU-seconds of work to preemption; its own jobs caused the loss of 10,800." in theirs
    )
    assert background.id not in theirs


def test_receipts_are_seen_by_all_and_followed_by_those_who_may(
    background: Job, urgent: Job, browser: Browser, owner: User, outsider: User
) -> None:
    tick()
    assert f"/jobs/{background.id}/" in browser(owner).get("/queue/").content.decode()
    others = browser(outsider).get("/queue/").content.decode()
    assert "Preempted by the platform" in others
    assert background.id not in others
