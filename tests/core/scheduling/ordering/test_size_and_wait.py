"""Smallest first, a size halved by waiting: who goes first, who is stopped, who is moved, and how long one waits."""

from __future__ import annotations

import random
from dataclasses import replace
from math import log2, sqrt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import RunningJob, Snapshot
from platform_core.jobs.constraints import Constraints
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.engine import plan
from platform_core.scheduling.ordering.size_and_wait import (
    HALF_LIFE_PART,
    HUGE_LATER_PART,
    LEAST_SIZE_MS,
    backlog_ms,
    keys,
    next_change_ms,
)
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.preemption.test_eviction import after_round
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
OURS = Policy("size_and_wait", evicts=True, migrates=True, reservations=1)


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
    young = busy("young", {"a": range(8)}, hours=9, ran_hours=0.1)
    assert stopped_for(8, 1, young) == set()
    assert stopped_for(8, 1, replace(young, priority=51)) == {"young"}


def test_a_job_that_would_lose_as_much_as_it_has_left_is_not_stopped_by_its_equals() -> None:
    long = busy("long", {"a": range(8)}, hours=5, ran_hours=7)
    assert stopped_for(8, 1, replace(long, saves_when_stopped=False)) == set()
    recently = replace(long, saves_when_stopped=False, last_checkpoint_ms=NOW_MS - MINUTE_MS)
    assert stopped_for(8, 1, recently) == {"long"}


def test_room_is_made_where_the_least_is_lost() -> None:
    dear = replace(busy("dear", {"a": range(8)}, hours=90), saves_when_stopped=False)
    cheap = busy("cheap", {"b": range(8)}, hours=90)
    job = pending("new", 4, max_runtime_ms=HOUR_MS)
    full = [node("a", free=0), node("b", free=0)]
    [stop] = plan(snapshot(full, [job], held=[dear, cheap]), OURS).stops
    assert stop == Stop("job-cheap", "job-new", StopKind.EVICTED, 8 * MINUTE_MS)


def test_a_more_urgent_job_is_never_stopped_and_a_less_urgent_one_always_may_be() -> None:
    long = busy("long", {"a": range(8)}, hours=9)
    assert stopped_for(8, 1, replace(long, priority=49)) == set()
    assert stopped_for(8, 20, replace(long, priority=51)) == {"long"}


def test_nobody_is_stopped_where_free_slots_suffice_or_beyond_the_quota() -> None:
    assert stopped_for(4, 1, busy("long", {"a": range(4)}, hours=9), free=4) == set()
    job, long = pending("new", 8, max_runtime_ms=HOUR_MS), busy("long", {"a": range(8)}, hours=9)
    beyond = snapshot([node("a", free=0)], [job], held=[long], teams=[team(maximum=4)])
    assert plan(beyond, OURS).preemptions == ()


HALVES = [node("a", free=4), node("b", free=4)]


def half(name: str, ran_hours: float = 1.0) -> RunningJob:
    return busy(name, {name: range(4)}, hours=1, ran_hours=ran_hours)


def test_a_smaller_job_is_moved_where_the_free_slots_are_in_pieces_and_finds_others() -> None:
    gang = pending("gang", 8, max_runtime_ms=9 * HOUR_MS)
    now = snapshot(HALVES, [gang], held=[half("a"), half("b")])
    made = plan(now, OURS)
    assert [(stop.for_job, stop.kind) for stop in made.stops] == [("job-gang", StopKind.MOVED)]
    after = plan(after_round(now, made), OURS)
    assert {each.job_id for each in after.placements} == {"job-gang", made.preemptions[0]}
    assert after.stops == ()


def test_nobody_is_moved_twice_in_half_an_hour_or_for_a_short_or_an_equally_large_job() -> None:
    gang, short = pending("x", 8, max_runtime_ms=9 * HOUR_MS), pending("x", 8, max_runtime_ms=MINUTE_MS)
    fresh = snapshot(HALVES, [gang], held=[half("a", ran_hours=0.4), half("b", ran_hours=0.4)])
    assert plan(fresh, OURS).stops == ()
    assert plan(snapshot(HALVES, [short], held=[half("a"), half("b")]), OURS).stops == ()
    # It would find its slots on b, where the other must not go.
    nodes, large = [node("a", slots=4, free=0), node("b", slots=4)], busy("a", {"a": range(4)}, hours=1)
    not_on_b = Constraints(excluded_nodes=("b",))
    equal = pending("x", 4, max_runtime_ms=9 * HOUR_MS, constraints=not_on_b)
    assert plan(snapshot(nodes, [equal], held=[large]), OURS).stops == ()


def test_a_more_urgent_job_is_not_moved_and_without_the_policy_nobody_is() -> None:
    gang = pending("gang", 8, max_runtime_ms=9 * HOUR_MS)
    urgent = [replace(half("a"), priority=10), replace(half("b"), priority=10)]
    assert plan(snapshot(HALVES, [gang], held=urgent), OURS).stops == ()
    stays = replace(OURS, migrates=False)
    assert plan(snapshot(HALVES, [gang], held=[half("a"), half("b")]), stays).stops == ()


def test_time_left_and_the_root_of_the_gpus_make_the_size() -> None:
    queue = [
        pending("gang", 16, max_runtime_ms=HOUR_MS),
        pending("longer", 1, max_runtime_ms=5 * HOUR_MS),
        pending("shorter", 1, max_runtime_ms=3 * HOUR_MS),
    ]
    without = Policy("size_and_wait")
    assert plan(snapshot([node("a")], queue), without).order == ("job-shorter", "job-gang", "job-longer")


def test_a_size_counts_half_for_each_half_life_waited() -> None:
    queue = [pending("other", 8, max_runtime_ms=40 * HOUR_MS), pending("new", 1, max_runtime_ms=HOUR_MS)]
    old = pending("old", 1, max_runtime_ms=4 * HOUR_MS)
    half_life_ms = HALF_LIFE_PART * backlog_ms(snapshot([node("a")], [*queue, old]))

    def order(half_lives: float) -> tuple[str, ...]:
        waited = replace(old, submitted_ms=round(NOW_MS - half_lives * half_life_ms))
        return plan(snapshot([node("a")], [*queue, waited]), OURS).order

    assert order(1.9)[0] == "job-new"
    assert order(2.1)[0] == "job-old"


@given(
    hours=st.integers(1, 240),
    gpus=st.sampled_from([1, 8, 64, 1_024]),
    filling=st.integers(1, 50),
    held=st.booleans(),
)
def test_whoever_has_waited_for_twice_the_backlog_goes_before_every_newcomer(
    hours: int, gpus: int, filling: int, held: bool
) -> None:
    """The stated bound on being overtaken, for limits up to ten days and gangs up to 1,024 GPUs, however huge."""
    others = [pending(f"other{number}", 8, max_runtime_ms=30 * HOUR_MS) for number in range(filling)]
    newcomer = pending("new", 1, max_runtime_ms=1)
    patient = pending("patient", gpus, max_runtime_ms=hours * HOUR_MS)
    nodes = [node("a"), node("b")]
    running_too = [busy("runs", {"a": range(8)}, hours=hours)] if held else []
    now = snapshot(nodes, [*others, newcomer, patient], held=running_too)
    halvings = log2(hours * HOUR_MS * sqrt(gpus) / LEAST_SIZE_MS + 1)
    assert halvings * HALF_LIFE_PART + HUGE_LATER_PART < 2
    patient = replace(patient, submitted_ms=NOW_MS - round(2 * backlog_ms(now)))
    now = replace(now, pending=(*others, newcomer, patient))
    assert sorted(now.pending, key=keys(now).waiting)[0] == patient


def test_a_job_that_would_hold_the_whole_cluster_for_long_waits_for_the_many() -> None:
    """Both are large; the gang's work alone is more than 0.06 of the backlog, so it counts as come later."""
    crowd = [pending(f"z{number:02}", 8, max_runtime_ms=40 * HOUR_MS) for number in range(30)]
    huge = pending("huge", 16, max_runtime_ms=300 * HOUR_MS, submitted_ms=NOW_MS - HOUR_MS)
    nodes = [node("a"), node("b")]

    def order(waited_backlogs: float) -> tuple[str, ...]:
        backlog = backlog_ms(snapshot(nodes, [*crowd, huge]))
        patient = replace(huge, submitted_ms=round(NOW_MS - waited_backlogs * backlog))
        return plan(snapshot(nodes, [*crowd, patient]), Policy("size_and_wait")).order

    assert order(HUGE_LATER_PART - 0.01)[-1] == "job-huge"
    assert order(HUGE_LATER_PART + 0.09)[0] == "job-huge"


def test_among_jobs_that_are_large_beside_the_backlog_the_older_goes_first() -> None:
    smaller = pending("new", 8, max_runtime_ms=30 * HOUR_MS)
    larger = pending("old", 8, max_runtime_ms=60 * HOUR_MS, submitted_ms=NOW_MS - 2 * HOUR_MS)
    order = Policy("size_and_wait")
    assert plan(snapshot([node("a")], [smaller, larger]), order).order[0] == "job-old"
    crowd = [pending(f"z{number}", 8, max_runtime_ms=60 * HOUR_MS) for number in range(40)]
    assert plan(snapshot([node("a")], [smaller, larger, *crowd]), order).order[0] == "job-new"


def test_without_stated_limits_the_least_run_goes_first() -> None:
    unstated = 0
    had_much = replace(pending("had", 8, max_runtime_ms=unstated), attained_gpu_ms=8 * HOUR_MS * 2)
    fresh = pending("new", 8, max_runtime_ms=unstated)
    assert plan(snapshot([node("a")], [had_much, fresh]), OURS).order[0] == "job-new"
    runs_long = replace(busy("long", {"a": range(8)}, hours=99, ran_hours=5), max_runtime_ms=unstated)
    assert plan(snapshot([node("a", free=0)], [fresh], held=[runs_long]), OURS).preemptions == ("job-long",)


@given(st.integers(1, 720), st.integers(1, 720), st.integers(1, 8))
@example(167, 168, 8)
@example(24, 168, 1)
def test_no_stated_limit_puts_a_job_before_one_that_states_less(one: int, other: int, gpus: int) -> None:
    less, more = sorted((one, other))
    jobs = [
        pending(f"{name}", gpus, max_runtime_ms=hours * HOUR_MS)
        for name, hours in (("a-less", less), ("b-more", more))
    ]
    order = keys(snapshot([node("a")], jobs))
    assert order.waiting(jobs[0]) <= order.waiting(jobs[1])


def test_a_running_job_says_when_its_place_in_the_order_changes() -> None:
    stated = busy("x", {"a": range(8)}, hours=9, ran_hours=0)
    assert next_change_ms(stated, NOW_MS) == NOW_MS + 10 * MINUTE_MS
    assert next_change_ms(stated, NOW_MS + 10 * MINUTE_MS) is None
    unstated = replace(stated, max_runtime_ms=0)
    assert next_change_ms(unstated, NOW_MS + 10 * MINUTE_MS) == NOW_MS + 30 * MINUTE_MS
    assert next_change_ms(unstated, NOW_MS + 30 * MINUTE_MS) == NOW_MS + 180 * MINUTE_MS


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
                preemptible=draw(st.sampled_from([True, True, True, False])),
                saves_when_stopped=True,
            )
            for job in made.running
        ),
    )


QUEUE_RULES = {"passed over though it fitted"}  # room made for one job is not given to the next


@pytest.mark.parametrize("reservations", [0, 1])
@given(now=timed())
def test_rounds_with_eviction_and_moves_keep_the_rules_and_come_to_rest(
    reservations: int, now: Snapshot
) -> None:
    policy = replace(OURS, reservations=reservations)
    for _ in range(len(now.pending) + len(now.running) + 1):
        made = plan(now, policy)
        assert violations(now, made) <= QUEUE_RULES
        assert set(made.preemptions) <= {job.id for job in now.running if job.preemptible}
        assert len(set(made.preemptions)) == len(made.preemptions)
        if not made.preemptions:
            return
        now = after_round(now, made)
    raise AssertionError("still stopping jobs after as many rounds as there are jobs")


@given(now=timed())
def test_nobody_is_stopped_for_a_less_urgent_job(now: Snapshot) -> None:
    priority = {job.id: job.priority for job in (*now.pending, *now.running)}
    for stop in plan(now, OURS).stops:
        assert priority[stop.for_job] <= priority[stop.job_id]


@given(now=timed())
def test_a_stop_is_followed_by_the_start_of_the_job_it_was_for(now: Snapshot) -> None:
    """No pointless stop: once all that were stopped have gone, each of those jobs starts."""
    made = plan(now, OURS)
    started = {placement.job_id for placement in plan(after_round(now, made), OURS).placements}
    assert {stop.for_job for stop in made.stops} <= started


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


@pytest.mark.parametrize("waited_ms", [0, 7 * DAY_MS])
@pytest.mark.parametrize("usage_share", [0.5, 1.0, 4.0])
def test_what_a_team_has_used_beyond_its_share_counts_until_the_job_has_waited_for_a_week(
    usage_share: float, waited_ms: int
) -> None:
    since = {"submitted_ms": NOW_MS - waited_ms}
    queue = [pending("small", 8, max_runtime_ms=HOUR_MS, **since)]
    queue += [pending("larger", 8, team="nlp", max_runtime_ms=2 * HOUR_MS, **since)]
    teams = [team(usage_share=usage_share), team("nlp")]
    held_back = usage_share > 1 and not waited_ms
    order = plan(snapshot([node("a")], queue, teams=teams), OURS).order
    assert order == (("job-larger", "job-small") if held_back else ("job-small", "job-larger"))


def test_what_a_team_has_used_never_puts_its_job_behind_a_less_urgent_one() -> None:
    queue = [pending("urgent", 8, priority=49), pending("patient", 8, team="nlp")]
    teams = [team(usage_share=10.0), team("nlp")]
    assert plan(snapshot([node("a")], queue, teams=teams), OURS).order[0] == "job-urgent"


@pytest.mark.parametrize("made_way", [2, 3])
def test_who_has_made_way_often_enough_is_left_alone_by_its_equals(made_way: int) -> None:
    policy = replace(OURS, most_preemptions=3)
    long = replace(busy("long", {"a": range(8)}, hours=90), preemptions=made_way)
    for priority in (50, 49):
        queue = [pending("new", 8, max_runtime_ms=HOUR_MS, priority=priority)]
        stopped = plan(snapshot([node("a", free=0)], queue, held=[long]), policy).preemptions
        assert bool(stopped) is (made_way < 3 or priority < 50)


def test_of_equals_what_earlier_attempts_have_had_is_taken_off_the_limit() -> None:
    resumed = pending("resumed", 8, max_runtime_ms=9 * HOUR_MS, submitted_ms=NOW_MS - 8 * HOUR_MS)
    resumed = replace(resumed, attained_gpu_ms=8 * 8 * HOUR_MS)
    fresh = pending("fresh", 8, max_runtime_ms=3 * HOUR_MS)
    assert plan(snapshot([node("a")], [fresh, resumed]), OURS).order[0] == "job-resumed"
