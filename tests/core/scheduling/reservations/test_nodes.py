"""A place kept for the first in the queue, and who may use it until then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import Plan, WaitCode
from platform_core.scheduling.engine import Decisions, decide, plan, reserve_places
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.reservations.nodes import Reservation
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot

HOUR_MS = 60 * MINUTE_MS
EASY = Policy("first_come", reservations=1)


def first(name: str, gpus: int, *, hours: int = 1) -> PendingJob:
    return pending(name, gpus, submitted_ms=NOW_MS - MINUTE_MS, max_runtime_ms=hours * HOUR_MS)


def later(name: str, gpus: int, *, hours: int) -> PendingJob:
    return pending(name, gpus, max_runtime_ms=hours * HOUR_MS)


def busy(name: str, where: str, slots: int, *, hours: int) -> RunningJob:
    return running(name, {where: range(slots)}, expected_end_ms=NOW_MS + hours * HOUR_MS)


def half_busy() -> tuple[list[NodeView], list[RunningJob]]:
    """Four of eight slots are free now, the others in two hours."""
    return [node("a", free=4)], [busy("old", "a", 4, hours=2)]


def started(made: Plan) -> set[str]:
    return {placement.job_id.removeprefix("job-") for placement in made.placements}


def test_a_short_job_passes_the_first_in_the_queue_and_a_long_one_does_not() -> None:
    nodes, held = half_busy()
    queue = [first("big", 8), later("short", 2, hours=2), later("long", 2, hours=3)]
    assert started(plan(snapshot(nodes, queue, held=held), EASY)) == {"short"}


def test_without_a_reservation_the_long_job_passes_too() -> None:
    nodes, held = half_busy()
    queue = [first("big", 8), later("short", 2, hours=2), later("long", 2, hours=3)]
    assert started(plan(snapshot(nodes, queue, held=held), Policy("first_come"))) == {"short", "long"}


def test_a_long_job_passes_where_it_does_not_touch_the_kept_place() -> None:
    nodes, held = half_busy()
    queue = [first("big", 6), later("fits-beside", 2, hours=9), later("would-touch", 1, hours=9)]
    assert started(plan(snapshot(nodes, queue, held=held), EASY)) == {"fits-beside"}


def test_the_earliest_node_to_come_free_is_kept_and_others_stay_open() -> None:
    nodes = [node("a", free=4), node("b", free=4)]
    held = [busy("soon", "a", 4, hours=1), busy("late", "b", 4, hours=5)]
    made = plan(snapshot(nodes, [first("big", 8), later("long", 4, hours=9)], held=held), EASY)
    [placement] = made.placements
    assert [seat.node for seat in placement.members] == ["node-b"]


def test_the_second_reservation_does_not_delay_the_first() -> None:
    nodes, held = half_busy()
    queue = [first("big", 8, hours=3), first("bigger", 8), later("small", 1, hours=2)]
    policy = Policy("first_come", reservations=2)
    one, two = reserve_places(decide(snapshot(nodes, queue, held=held), policy), policy)
    assert (one.start_ms, two.start_ms) == (NOW_MS + 2 * HOUR_MS, NOW_MS + 5 * HOUR_MS)


def test_a_later_place_does_not_reach_into_an_earlier_one() -> None:
    """The second would fit before the first begins, were it not for its limit."""
    nodes = [node("a", free=2), node("b", free=0, slots=4)]
    held = [busy("old", "a", 2, hours=1), running("older", {"a": range(4, 8)}, expected_end_ms=NOW_MS + 2 * HOUR_MS),
            busy("other", "b", 4, hours=9)]  # fmt: skip
    queue = [first("big", 8, hours=1), later("small", 4, hours=2)]
    policy = Policy("first_come", reservations=2)
    one, two = reserve_places(decide(snapshot(nodes, queue, held=held), policy), policy)
    assert (one.start_ms, two.start_ms) == (NOW_MS + 2 * HOUR_MS, NOW_MS + 3 * HOUR_MS)


def test_an_earlier_place_leaves_the_less_beside_it_the_longer_a_later_one_stays() -> None:
    """Six of eight from 2 h on, and two more from 1 h until 4 h: nothing is left for one that runs beyond."""
    held = [running("old", {"a": range(3)}, expected_end_ms=NOW_MS + HOUR_MS),
            running("older", {"a": range(3, 7)}, expected_end_ms=NOW_MS + 2 * HOUR_MS)]  # fmt: skip
    queue = [first("big", 6), first("two", 2, hours=3), later("long", 1, hours=9), later("short", 1, hours=2)]
    made = plan(snapshot([node("a", free=1)], queue, held=held), Policy("first_come", reservations=2))
    assert started(made) == {"short"}


def test_whoever_is_kept_a_place_is_told_its_nodes() -> None:
    nodes = [node("a", free=4), node("b", free=4), node("c", free=8)]
    held = [busy("late", "a", 4, hours=5), busy("soon", "b", 4, hours=1)]
    queue = [first("big", 16), later("long", 8, hours=9)]
    big, long = plan(snapshot(nodes, queue, held=held), EASY).waits
    assert big.place == ("node-b", "node-c")
    assert long.place == ()


def test_a_job_that_may_run_for_ever_is_not_waited_for() -> None:
    nodes = [node("a", free=4)]
    held = [running("endless", {"a": range(4)}, expected_end_ms=None)]
    made = plan(snapshot(nodes, [first("big", 8), later("long", 4, hours=9)], held=held), EASY)
    assert started(made) == {"long"}


def test_a_job_over_its_estimate_is_expected_to_end_soon_but_not_now() -> None:
    nodes = [node("a", free=4)]
    held = [running("late", {"a": range(4)}, started_ms=NOW_MS - 10 * HOUR_MS, expected_end_ms=NOW_MS - 1)]
    decided = decide(snapshot(nodes, [first("big", 8)], held=held), EASY)
    assert reserve_places(decided, EASY)[0].start_ms == NOW_MS + HOUR_MS


def test_both_are_told_who_is_kept_a_place_and_for_how_long_and_the_start_only_once() -> None:
    nodes, held = half_busy()
    big, long = plan(snapshot(nodes, [first("big", 8), later("long", 2, hours=3)], held=held), EASY).waits
    assert "should start" not in big.sentence
    assert dict(big.numbers)["reserved_start_ms"] == NOW_MS + 2 * HOUR_MS
    assert long.code is WaitCode.BEHIND
    assert long.sentence == (
        "needs 2 GPUs of a100; 4 are free but reserved for job-big, expected to start in 2 h"
    )


@given(snapshot=snapshots(), reservations=st.integers(0, 4), data=st.data())
def test_started_running_and_reserved_jobs_never_exceed_a_node(
    snapshot: Snapshot, reservations: int, data: st.DataObject
) -> None:
    timed = with_times(snapshot, data)
    policy = Policy("first_come", reservations=reservations)
    decided = decide(timed, policy)
    spans = _spans(timed, decided, reserve_places(decided, policy))
    for node_view in timed.nodes:
        for at_ms in sorted({begin for _, begin, _, _ in spans}):
            used = sum(
                slots for name, begin, end, slots in spans if name == node_view.id and begin <= at_ms < end
            )
            assert used <= node_view.slots


@given(snapshot=snapshots(), data=st.data())
def test_the_first_in_the_queue_starts_no_later_because_others_pass_it(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    timed = with_times(snapshot, data)
    decided = decide(timed, EASY)
    for kept in reserve_places(decided, EASY):
        ahead = decided.order[: decided.order.index(kept.job_id) + 1]
        alone = replace(timed, pending=tuple(job for job in timed.pending if job.id in ahead))
        [kept_alone] = reserve_places(decide(alone, EASY), EASY)
        assert kept.start_ms == kept_alone.start_ms


def with_times(snapshot: Snapshot, data: st.DataObject) -> Snapshot:
    hours = st.integers(1, 5)
    return replace(
        snapshot,
        pending=tuple(replace(job, max_runtime_ms=data.draw(hours) * HOUR_MS) for job in snapshot.pending),
        running=tuple(
            replace(job, expected_end_ms=NOW_MS + data.draw(hours) * HOUR_MS) for job in snapshot.running
        ),
    )


def _spans(
    timed: Snapshot, decided: Decisions, places: Sequence[Reservation]
) -> list[tuple[str, int, int, int]]:
    """(node, begin, end, slots) of all that runs, starts or is promised."""
    spans = [
        (name, NOW_MS, job.expected_end_ms or 0, len(slots))
        for job in timed.running
        for name, slots in job.placement
    ]
    for job, placement in decided.started:
        spans += [
            (seat.node, NOW_MS, NOW_MS + remaining_ms(job), len(seat.slots)) for seat in placement.members
        ]
    for kept in places:
        nodes = [decided.state.index.nodes[position] for position in kept.place.nodes]
        spans += [(each.id, kept.start_ms, kept.end_ms, kept.place.slots_each) for each in nodes]
    return spans
