"""Elastic jobs: they begin with what there is, give up what others wait for, and take what lies idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import RunningJob, Snapshot
from platform_core.scheduling.decisions import Plan, Stop, StopKind
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption.elastic import sizes
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
ELASTIC = Policy(elastic=True, reservations=2)


def stretchy(
    name: str,
    where: Mapping[str, Sequence[int]],
    *,
    least: int,
    most: int,
    ran_ms: int = HOUR_MS,
    priority: int = 50,
) -> RunningJob:
    asks = pending(name, most, least=least, priority=priority)
    begun = NOW_MS - ran_ms
    job = running(name, where, started_ms=begun, expected_end_ms=NOW_MS + 20 * HOUR_MS, priority=priority)
    return replace(job, num_gpus=most, min_gpus=least, asks=asks, saves_when_stopped=True)


def given_to(made: Plan) -> dict[str, int]:
    return {each.job_id: sum(len(seat.slots) for seat in each.members) for each in made.placements}


@pytest.mark.parametrize(
    ("most", "least", "node_slots", "expected"),
    [
        (24, 3, 8, [24, 16, 8, 7, 6, 5, 4, 3]),
        (16, 10, 8, [16, 10]),
        (4, 4, 8, [4]),
        (12, 8, 8, [12, 8]),
        (6, 5, 0, [6, 5]),
    ],
)
def test_it_runs_on_whole_nodes_or_a_part_of_one(
    most: int, least: int, node_slots: int, expected: list[int]
) -> None:
    assert list(sizes(pending("x", most, least=least), node_slots)) == expected


def test_it_begins_with_fewer_where_that_starts_it_now() -> None:
    made = plan(snapshot([node("a", free=5)], [pending("x", 8, least=2)]))
    assert given_to(made) == {"job-x": 5}
    assert made.placements[0].reason.endswith("; it asked for 8 and starts with 5")


def test_it_waits_where_not_even_its_least_is_free() -> None:
    assert given_to(plan(snapshot([node("a", free=1)], [pending("x", 8, least=2)]))) == {}


def test_it_begins_with_what_its_quota_leaves() -> None:
    made = plan(snapshot([node("a")], [pending("x", 8, least=2)], teams=[team(maximum=3)]))
    assert given_to(made) == {"job-x": 3}


def test_it_is_shrunk_for_a_waiting_job_and_no_further_than_needed() -> None:
    held = [stretchy("big", {"a": range(8)}, least=2, most=8)]
    made = plan(snapshot([node("a", free=0)], [pending("new", 3)], held=held), ELASTIC)
    assert made.stops == (Stop("job-big", "job-new", StopKind.SHRUNK, 8 * MINUTE_MS, 5),)
    assert "1 job will save and stop for it" in made.waits[0].sentence
    after = snapshot([node("a")], [pending("new", 3), pending("big", 8, least=2, resize_to=5)])
    assert given_to(plan(after, ELASTIC)) == {"job-big": 5, "job-new": 3}


def test_an_elastic_one_that_waits_asks_others_only_for_its_least() -> None:
    held = [stretchy("big", {"a": range(8)}, least=2, most=8)]
    made = plan(snapshot([node("a", free=0)], [pending("new", 8, least=2)], held=held), ELASTIC)
    assert [stop.to_gpus for stop in made.stops] == [6]


def test_the_cheapest_is_shrunk_and_whoever_need_not_be_is_left_alone() -> None:
    held = [
        replace(stretchy("dear", {"a": range(8)}, least=2, most=8), saves_when_stopped=False),
        stretchy("cheap", {"b": range(8)}, least=2, most=8),
    ]
    made = plan(snapshot([node("a", free=0), node("b", free=0)], [pending("new", 4)], held=held), ELASTIC)
    assert made.preemptions == ("job-cheap",)


@pytest.mark.parametrize(
    "spared",
    [
        stretchy("x", {"a": range(8)}, least=2, most=8, priority=10),
        stretchy("x", {"a": range(8)}, least=8, most=8),
        replace(stretchy("x", {"a": range(8)}, least=2, most=8), preemptible=False),
        replace(stretchy("x", {"a": range(8)}, least=2, most=8), asks=None),
    ],
    ids=["more urgent", "at its least", "not preemptible", "not elastic"],
)
def test_who_is_not_shrunk(spared: RunningJob) -> None:
    made = plan(snapshot([node("a", free=0)], [pending("new", 3)], held=[spared]), ELASTIC)
    assert made.stops == ()


def test_nobody_is_shrunk_for_a_job_that_is_over_before_it_is_worth_it() -> None:
    held = [stretchy("big", {"a": range(8)}, least=2, most=8)]
    short = pending("new", 1, max_runtime_ms=MINUTE_MS)
    assert plan(snapshot([node("a", free=0)], [short], held=held), ELASTIC).stops == ()


def test_it_is_shrunk_before_anybody_is_evicted() -> None:
    policy = replace(ELASTIC, order="shortest_remaining", evicts=True)
    fixed = running(
        "fixed", {"b": range(8)}, expected_end_ms=NOW_MS + 50 * HOUR_MS, started_ms=NOW_MS - HOUR_MS
    )
    held = [stretchy("big", {"a": range(8)}, least=2, most=8), fixed]
    new = pending("new", 4)
    made = plan(snapshot([node("a", free=0), node("b", free=0)], [new], held=held), policy)
    assert [(stop.job_id, stop.kind) for stop in made.stops] == [("job-big", StopKind.SHRUNK)]


def test_it_grows_into_idle_gpus_while_nobody_waits() -> None:
    held = [stretchy("small", {"a": range(4)}, least=2, most=16)]
    nodes = [node("a", free=4), node("b"), node("c", free=0)]
    made = plan(snapshot(nodes, [], held=held, teams=[team(used=4)]), ELASTIC)
    assert made.stops == (Stop("job-small", "job-small", StopKind.GROWN, 4 * MINUTE_MS, 16),)


def test_it_does_not_grow_while_somebody_waits_for_the_same_type() -> None:
    held = [stretchy("small", {"a": range(4)}, least=2, most=8)]
    blocked, other = pending("x", 16), pending("y", 16, gpu_type="cpu")
    teams = [team(used=4), team(gpu_type="cpu")]
    for queue, grown in (([blocked], 0), ([other], 1)):
        made = plan(snapshot([node("a", free=4)], queue, held=held, teams=teams), ELASTIC)
        assert len(made.stops) == grown


def test_whoever_waits_for_quota_does_not_keep_others_from_growing() -> None:
    held = [stretchy("small", {"a": range(4)}, least=2, most=8)]
    waiting = pending("x", 2, team="nlp")
    teams = [team(used=4), team("nlp", maximum=1)]
    assert plan(snapshot([node("a", free=4)], [waiting], held=held, teams=teams), ELASTIC).stops


@pytest.mark.parametrize(
    ("job", "share"),
    [
        (stretchy("x", {"a": range(4)}, least=2, most=8), team(used=4, maximum=4)),
        (replace(stretchy("x", {"a": range(4)}, least=2, most=8), preemptible=False), team(used=4)),
    ],
    ids=["quota used up", "not preemptible"],
)
def test_who_does_not_grow(job: RunningJob, share: object) -> None:
    made = plan(snapshot([node("a", free=4)], [], held=[job], teams=[share]), ELASTIC)  # type: ignore[list-item]
    assert made.stops == ()


def test_a_job_that_has_just_begun_is_not_shrunk_for_its_equals() -> None:
    held = [stretchy("x", {"a": range(8)}, least=2, most=8, ran_ms=5 * MINUTE_MS)]
    for priority, stopped in ((50, ()), (40, ("job-x",))):
        new = pending("new", 3, priority=priority)
        assert plan(snapshot([node("a", free=0)], [new], held=held), ELASTIC).preemptions == stopped


def test_a_job_that_has_begun_lately_does_not_grow() -> None:
    job = stretchy("x", {"a": range(4)}, least=2, most=8, ran_ms=20 * MINUTE_MS)
    assert plan(snapshot([node("a", free=4)], [], held=[job], teams=[team(used=4)]), ELASTIC).stops == ()


@pytest.mark.parametrize(
    ("ran_minutes", "lost_minutes_before_it", "grows"),
    [
        (2, [0.1], True),
        (0.5, [0.1], False),
        (2, [], False),
        (2, [45], False),
        (2, [0.1, 20], False),
        (2, [0.1, 45], True),
    ],
    ids=[
        "soon",
        "not at once",
        "nothing failed",
        "it failed long ago",
        "it fails again and again",
        "as it once did",
    ],
)
def test_a_job_that_a_failure_made_smaller_grows_back_soon(
    ran_minutes: float, lost_minutes_before_it: list[float], grows: bool
) -> None:
    job = stretchy("x", {"a": range(4)}, least=2, most=8, ran_ms=round(ran_minutes * MINUTE_MS))
    lost = sorted(round(job.started_ms - before * MINUTE_MS) for before in lost_minutes_before_it)
    job = replace(job, losses_ms=tuple(lost))
    made = plan(snapshot([node("a", free=4)], [], held=[job], teams=[team(used=4)]), ELASTIC)
    assert [(stop.job_id, stop.to_gpus) for stop in made.stops] == ([("job-x", 8)] if grows else [])


def test_a_job_that_is_soon_over_does_not_grow() -> None:
    job = replace(stretchy("x", {"a": range(4)}, least=2, most=8), expected_end_ms=NOW_MS + 5 * MINUTE_MS)
    assert plan(snapshot([node("a", free=4)], [], held=[job], teams=[team(used=4)]), ELASTIC).stops == ()


def test_they_grow_one_after_the_other() -> None:
    held = [
        stretchy("x", {"a": range(2)}, least=2, most=6),
        stretchy("y", {"a": range(2, 4)}, least=2, most=6),
    ]
    made = plan(snapshot([node("a", free=4)], [], held=held, teams=[team(used=4)]), ELASTIC)
    assert [(stop.job_id, stop.to_gpus) for stop in made.stops] == [("job-x", 6)]


def test_without_the_policy_nobody_is_resized() -> None:
    held = [stretchy("x", {"a": range(4)}, least=2, most=8)]
    assert plan(snapshot([node("a", free=4)], [], held=held, teams=[team(used=4)])).stops == ()
    assert plan(snapshot([node("a", free=4)], [pending("new", 6)], held=held)).stops == ()


def test_whoever_is_resized_goes_before_more_urgent_ones() -> None:
    queue = [pending("urgent", 8, priority=0), pending("big", 8, least=2, resize_to=5)]
    assert given_to(plan(snapshot([node("a")], queue), ELASTIC)) == {"job-big": 5}


@st.composite
def situations(draw: st.DrawFn) -> Snapshot:
    """Full and half-full nodes of four, some of whose jobs stretch."""
    nodes, held = [], []
    for number in range(draw(st.integers(1, 5))):
        busy = draw(st.integers(0, 4))
        nodes.append(node(f"n{number}", slots=4, free=range(busy, 4), rack=draw(st.sampled_from("rs"))))
        if busy:
            held.append(
                stretchy(
                    f"r{number}",
                    {f"n{number}": range(busy)},
                    least=draw(st.integers(1, busy)),
                    most=draw(st.integers(busy, 12)),
                    ran_ms=draw(st.sampled_from([MINUTE_MS, 20 * MINUTE_MS, 2 * HOUR_MS])),
                    priority=draw(st.sampled_from([20, 50, 80])),
                )
            )
    queue = []
    for number in range(draw(st.integers(0, 4))):
        most = draw(st.sampled_from([1, 2, 4, 8, 12]))
        queue.append(
            pending(
                f"q{number}",
                most,
                least=draw(st.integers(1, most)),
                priority=draw(st.sampled_from([20, 50, 80])),
            )
        )
    used = sum(job.held for job in held)
    return snapshot(
        nodes, queue, held=held, teams=[team(used=used, maximum=draw(st.sampled_from([used, 1_000])))]
    )


def leaving(name: str, where: Mapping[str, Sequence[int]]) -> RunningJob:
    return replace(running(name, where, started_ms=NOW_MS - HOUR_MS), preemptible=False, stopping=True)


def test_while_one_is_saving_nobody_else_is_stopped_for_the_same_job() -> None:
    held = [leaving("saves", {"a": range(8)}), stretchy("big", {"b": range(8)}, least=2, most=8)]
    nodes = [node("a", free=0), node("b", free=0)]
    first, second = pending("first", 6), pending("second", 4, submitted_ms=NOW_MS + 1)
    alone = plan(snapshot(nodes, [first], held=held), ELASTIC)
    assert (alone.stops, alone.waits[0].sentence.rpartition("; ")[2]) == (
        (),
        "stopping jobs release slots for it",
    )
    both = plan(snapshot(nodes, [first, second], held=held), ELASTIC)
    assert [(stop.job_id, stop.for_job) for stop in both.stops] == [("job-big", "job-second")]


def test_what_a_resized_one_comes_back_to_is_not_promised_to_others() -> None:
    asks = pending("big", 8, least=2, resize_to=5)
    big = replace(leaving("big", {"a": range(8)}), asks=asks, num_gpus=8, min_gpus=2)
    other = stretchy("other", {"b": range(8)}, least=2, most=8)
    nodes = [node("a", free=0), node("b", free=0)]
    for gpus, stopped in ((3, ()), (4, ("job-other",))):
        new = pending("new", gpus)
        assert plan(snapshot(nodes, [new], held=[big, other]), ELASTIC).preemptions == stopped


@given(situation=situations())
def test_never_below_the_least_nor_above_what_was_asked(situation: Snapshot) -> None:
    made = plan(situation, ELASTIC)
    asked = {job.id: job for job in situation.pending}
    for job_id, gpus in given_to(made).items():
        assert asked[job_id].min_gpus <= gpus <= asked[job_id].num_gpus
    held = {job.id: job for job in situation.running}
    for stop in made.stops:
        job = held[stop.job_id]
        assert job.min_gpus <= stop.to_gpus <= job.num_gpus
        assert (stop.to_gpus < job.held) == (stop.kind is StopKind.SHRUNK)


@given(situation=situations())
def test_a_round_never_resizes_one_that_has_just_begun_unless_for_more_urgent_ones(
    situation: Snapshot,
) -> None:
    held = {job.id: job for job in situation.running}
    queue = {job.id: job for job in situation.pending}
    for stop in plan(situation, ELASTIC).stops:
        ran_ms = NOW_MS - held[stop.job_id].started_ms
        if stop.kind is StopKind.GROWN:
            assert ran_ms >= 30 * MINUTE_MS
        elif queue[stop.for_job].priority == held[stop.job_id].priority:
            assert ran_ms >= 10 * MINUTE_MS


@given(situation=situations())
def test_growing_never_delays_a_reservation(situation: Snapshot) -> None:
    """While a place is kept for anybody of a type, nobody of that type grows."""
    made = plan(situation, ELASTIC)
    if any("reserved_start_ms" in dict(wait.numbers) for wait in made.waits):
        assert all(stop.kind is not StopKind.GROWN for stop in made.stops)


@given(situation=situations())
def test_the_next_round_finds_room_for_the_shrunk_and_for_whom_they_were_shrunk(situation: Snapshot) -> None:
    made = plan(situation, ELASTIC)
    if not made.stops:
        return
    given = given_to(plan(_next(situation, made), ELASTIC))
    for stop in made.stops:
        assert given.get(stop.job_id) == stop.to_gpus
        before = (
            made.order[: made.order.index(stop.for_job) + 1] if stop.for_job in made.order else [stop.job_id]
        )
        assert set(before) & set(given), "it starts, or somebody who was before it in order"


def _next(before: Snapshot, made: Plan) -> Snapshot:
    """The cluster after those that were stopped have saved."""
    free = {each.id: set(each.free_slots) for each in before.nodes}
    held = {job.id: job for job in before.running}
    queue = {job.id: job for job in before.pending}
    for placement in made.placements:
        del queue[placement.job_id]
        for seat in placement.members:
            free[seat.node] -= set(seat.slots)
    for stop in made.stops:
        for name, slots in held[stop.job_id].placement:
            free[name] |= set(slots)
        stopped = held.pop(stop.job_id)
        assert stopped.asks is not None
        on = tuple(name for name, _ in stopped.placement)
        queue[stop.job_id] = replace(stopped.asks, resize_to=stop.to_gpus, resize_on=on)
    nodes = tuple(replace(each, free_slots=tuple(sorted(free[each.id]))) for each in before.nodes)
    return replace(before, nodes=nodes, pending=tuple(queue.values()), running=tuple(held.values()))
