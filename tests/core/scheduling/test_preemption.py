"""Who is stopped for whom where the policy weighs the time saved against the time lost."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import RunningJob, Snapshot
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team
from tests.core.scheduling.test_eviction import after_round

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
OURS = Policy("expected_remaining", preempts=True)


def busy(name: str, where: dict[str, range], *, hours: float, ran_hours: float = 1.0) -> RunningJob:
    started_ms = round(NOW_MS - ran_hours * HOUR_MS)
    job = running(name, where, started_ms=started_ms, expected_end_ms=round(NOW_MS + hours * HOUR_MS))
    return replace(job, max_runtime_ms=1_000 * HOUR_MS, submitted_ms=started_ms, saves_when_stopped=True)


def stopped_for(gpus: int, hours: float, *held: RunningJob, free: int = 0, slots: int = 8) -> set[str]:
    job = pending("new", gpus, max_runtime_ms=round(hours * HOUR_MS))
    nodes = [node("a", slots=slots, free=free)]
    return {name.removeprefix("job-") for name in plan(snapshot(nodes, [job], held=held), OURS).preemptions}


def test_a_job_stops_one_with_much_more_left_and_not_one_with_a_little_more() -> None:
    assert stopped_for(8, 1, busy("long", {"a": range(8)}, hours=5)) == {"long"}
    assert stopped_for(8, 1, busy("similar", {"a": range(8)}, hours=1.5)) == set()


def test_a_job_that_has_just_begun_is_left_alone_by_its_equals() -> None:
    assert stopped_for(8, 1, busy("young", {"a": range(8)}, hours=9, ran_hours=0.1)) == set()


def test_unsaved_work_counts_as_a_cost() -> None:
    long = busy("long", {"a": range(8)}, hours=5, ran_hours=7)
    assert stopped_for(8, 1, replace(long, saves_when_stopped=False)) == set()
    recently = replace(long, saves_when_stopped=False, last_checkpoint_ms=NOW_MS - MINUTE_MS)
    assert stopped_for(8, 1, recently) == {"long"}


def test_among_those_that_may_be_stopped_the_least_is_lost() -> None:
    dear = replace(busy("dear", {"a": range(4)}, hours=9), saves_when_stopped=False)
    cheap = busy("cheap", {"a": range(4, 8)}, hours=9)
    assert stopped_for(4, 1, dear, cheap) == {"cheap"}


def test_a_gang_does_not_stop_many_where_that_delays_them_more_than_it_gains() -> None:
    eight = [busy(f"one{slot}", {"a": range(slot, slot + 1)}, hours=4) for slot in range(8)]
    assert stopped_for(8, 1, *eight) == set()
    assert len(stopped_for(8, 0.2, *eight)) == 8


def test_a_more_urgent_job_is_never_stopped_and_a_less_urgent_one_always_may_be() -> None:
    long = busy("long", {"a": range(8)}, hours=9)
    assert stopped_for(8, 1, replace(long, priority=49)) == set()
    assert stopped_for(8, 20, replace(long, priority=51)) == {"long"}


def test_nobody_is_stopped_where_free_slots_suffice_or_beyond_the_quota() -> None:
    assert stopped_for(4, 1, busy("long", {"a": range(4)}, hours=9), free=4) == set()
    job, long = pending("new", 8, max_runtime_ms=HOUR_MS), busy("long", {"a": range(8)}, hours=9)
    beyond = snapshot([node("a", free=0)], [job], held=[long], teams=[team(maximum=4)])
    assert plan(beyond, OURS).preemptions == ()


def test_long_jobs_go_in_order_of_submission_and_an_older_one_stops_a_much_younger() -> None:
    old = pending("old", 8, max_runtime_ms=90 * HOUR_MS, submitted_ms=NOW_MS - 20 * HOUR_MS)
    young = busy("young", {"a": range(8)}, hours=40)
    assert plan(snapshot([node("a", free=0)], [old], held=[young]), OURS).preemptions == ("job-young",)
    older = replace(young, submitted_ms=NOW_MS - 21 * HOUR_MS)
    assert plan(snapshot([node("a", free=0)], [old], held=[older]), OURS).preemptions == ()


def test_who_has_waited_beyond_the_backlog_goes_before_every_short_job() -> None:
    """The stated bound: a wait no longer than the larger of a day and the work of all that is known."""
    long = pending("long", 8, max_runtime_ms=10 * HOUR_MS, submitted_ms=NOW_MS - 2 * DAY_MS)
    short = pending("short", 8, max_runtime_ms=MINUTE_MS)
    assert plan(snapshot([node("a")], [short, long]), OURS).order == ("job-long", "job-short")
    patient = replace(long, submitted_ms=NOW_MS - 2 * HOUR_MS)
    assert plan(snapshot([node("a")], [short, patient]), OURS).order == ("job-short", "job-long")


def test_without_stated_limits_the_least_run_goes_first() -> None:
    unstated = 7 * DAY_MS
    had_much = replace(pending("had", 8, max_runtime_ms=unstated), attained_gpu_ms=8 * HOUR_MS * 2)
    fresh = pending("new", 8, max_runtime_ms=unstated)
    assert plan(snapshot([node("a")], [had_much, fresh]), OURS).order[0] == "job-new"
    runs_long = replace(busy("long", {"a": range(8)}, hours=99, ran_hours=5), max_runtime_ms=unstated)
    assert plan(snapshot([node("a", free=0)], [fresh], held=[runs_long]), OURS).preemptions == ("job-long",)


@st.composite
def timed(draw: st.DrawFn) -> Snapshot:
    made = draw(snapshots())
    hours = st.sampled_from([1, 1, 3, 9, 30])
    return replace(
        made,
        pending=tuple(replace(job, max_runtime_ms=draw(hours) * HOUR_MS) for job in made.pending),
        running=tuple(
            replace(
                job,
                started_ms=NOW_MS - draw(hours) * HOUR_MS,
                submitted_ms=NOW_MS - 60 * HOUR_MS,
                expected_end_ms=NOW_MS + draw(hours) * HOUR_MS,
                max_runtime_ms=60 * HOUR_MS,
                priority=draw(st.sampled_from([45, 50, 50, 80])),
                saves_when_stopped=True,
            )
            for job in made.running
        ),
    )


QUEUE_RULES = {"passed over though it fitted"}  # room made for one job is not given to the next


@pytest.mark.parametrize("reservations", [0, 1])
@given(now=timed())
def test_rounds_with_preemption_keep_the_rules_and_come_to_rest(reservations: int, now: Snapshot) -> None:
    policy = replace(OURS, reservations=reservations)
    for _ in range(len(now.pending) + len(now.running) + 1):
        made = plan(now, policy)
        assert violations(now, made) <= QUEUE_RULES
        assert set(made.preemptions) <= {job.id for job in now.running}
        if not made.preemptions:
            return
        now = after_round(now, made)
    raise AssertionError("still stopping jobs after as many rounds as there are jobs")


@given(now=timed())
def test_nobody_is_stopped_for_a_less_urgent_job(now: Snapshot) -> None:
    made = plan(now, OURS)
    waiting = {wait.job_id for wait in made.waits}
    most_urgent = min((job.priority for job in now.pending if job.id in waiting), default=101)
    priorities = {job.id: job.priority for job in now.running}
    assert all(priorities[name] >= most_urgent for name in made.preemptions)


@given(now=timed(), seed=st.integers(0, 1_000))
def test_who_is_stopped_does_not_depend_on_how_the_snapshot_is_listed(now: Snapshot, seed: int) -> None:
    rng = random.Random(seed)
    shuffled = replace(
        now,
        nodes=tuple(rng.sample(now.nodes, len(now.nodes))),
        pending=tuple(rng.sample(now.pending, len(now.pending))),
        running=tuple(rng.sample(now.running, len(now.running))),
    )
    assert plan(shuffled, OURS) == plan(now, OURS)
