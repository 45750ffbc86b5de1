"""Who is stopped for whom, where the policy allows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given

from platform_core.cluster.snapshot import NodeView, RunningJob, Snapshot
from platform_core.scheduling.decisions import Plan, StopKind
from platform_core.scheduling.engine import plan
from platform_core.scheduling.ordering.keys import as_if_waiting
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
PRODUCTION = Policy(reservations=4, evicts=True, migrates=True, elastic=True, reclaims=True)
OWNED = [team(guaranteed=1, maximum=8)]
SHORTEST = Policy("shortest_remaining", evicts=True)


def with_hours_left(name: str, where: dict[str, range], hours: int) -> RunningJob:
    return running(name, where, expected_end_ms=NOW_MS + hours * HOUR_MS)


def test_a_shorter_job_stops_a_longer_one_and_starts_in_the_next_round() -> None:
    full, long = [node("a", free=0)], with_hours_left("long", {"a": range(8)}, hours=5)
    short = pending("short", 8, max_runtime_ms=HOUR_MS)
    made = plan(snapshot(full, [short], held=[long]), SHORTEST)
    assert (made.preemptions, made.placements) == (("job-long",), ())
    after = plan(snapshot([node("a")], [short, as_if_waiting(long, NOW_MS)]), SHORTEST)
    assert [each.job_id for each in after.placements] == ["job-short"]


def test_nobody_is_stopped_for_a_longer_job_or_where_room_is_free() -> None:
    long = with_hours_left("long", {"a": range(4)}, hours=5)
    longer, short = (
        pending("longer", 8, max_runtime_ms=9 * HOUR_MS),
        pending("short", 4, max_runtime_ms=HOUR_MS),
    )
    assert plan(snapshot([node("a", free=4)], [longer, short], held=[long]), SHORTEST).preemptions == ()


def test_a_job_that_may_not_be_stopped_is_not() -> None:
    long = replace(with_hours_left("long", {"a": range(8)}, hours=5), preemptible=False)
    short = pending("short", 8, max_runtime_ms=HOUR_MS)
    assert plan(snapshot([node("a", free=0)], [short], held=[long]), SHORTEST).preemptions == ()


def test_the_last_in_order_is_stopped_and_no_more_than_needed() -> None:
    nodes = [node("a", free=0), node("b", free=0)]
    held = [
        with_hours_left("middle", {"a": range(4)}, hours=5),
        with_hours_left("longest", {"a": range(4, 8)}, hours=9),
        with_hours_left("long", {"b": range(8)}, hours=7),
    ]
    short = pending("short", 2, max_runtime_ms=HOUR_MS)
    assert plan(snapshot(nodes, [short], held=held), SHORTEST).preemptions == ("job-longest",)


def test_the_room_made_for_one_job_is_not_given_to_the_next() -> None:
    nodes = [node("a", slots=4, free=2)]
    held = [with_hours_left("long", {"a": range(2)}, hours=9)]
    queue = [pending("gang", 4, max_runtime_ms=HOUR_MS), pending("small", 2, max_runtime_ms=10 * HOUR_MS)]
    made = plan(snapshot(nodes, queue, held=held), SHORTEST)
    assert (made.preemptions, made.placements) == (("job-long",), ())
    assert (
        made.waits[1].sentence
        == "needs 2 GPUs of a100; the free GPUs are reserved for other jobs, none is left"
    )


def test_nobody_is_stopped_for_a_job_beyond_its_quota() -> None:
    long = with_hours_left("long", {"a": range(8)}, hours=5)
    short = pending("short", 8, max_runtime_ms=HOUR_MS)
    made = plan(snapshot([node("a", free=0)], [short], held=[long], teams=[team(maximum=4)]), SHORTEST)
    assert made.preemptions == ()


def test_without_the_policy_nobody_is_ever_stopped() -> None:
    long = with_hours_left("long", {"a": range(8)}, hours=5)
    short = pending("short", 8, max_runtime_ms=HOUR_MS)
    made = plan(snapshot([node("a", free=0)], [short], held=[long]), Policy("shortest_remaining"))
    assert made.preemptions == ()


def test_in_the_order_of_priorities_equals_never_stop_each_other_in_turn() -> None:
    """A wait wins points and a running job has none: once both have waited, each would stop the other in turn."""
    now, stops = snapshot([node("a", slots=1)], [pending("one", 1), pending("two", 1)], teams=OWNED), 0
    for _ in range(30):
        made = plan(now, PRODUCTION)
        stops += len(made.stops)
        later = after_round(now, made)
        now = replace(later, now_ms=later.now_ms + MINUTE_MS)
    assert stops == 0
    urgent = replace(now, pending=(*now.pending, pending("urgent", 1, priority=10)))
    assert [stop.for_job for stop in plan(urgent, PRODUCTION).stops] == ["job-urgent"]


def test_one_that_has_just_begun_is_not_stopped_however_urgent_the_other_is() -> None:
    policy = replace(PRODUCTION, least_run_ms=5 * MINUTE_MS)
    for ran_ms, stopped in [(policy.least_run_ms - 1, ()), (policy.least_run_ms, ("job-old",))]:
        old = running("old", {"a": range(8)}, started_ms=NOW_MS - ran_ms)
        situation = snapshot([node("a", free=0)], [pending("urgent", 8, priority=0)], held=[old])
        assert plan(situation, policy).preemptions == stopped


@given(snapshots())
def test_in_the_order_of_priorities_only_the_less_urgent_are_evicted(situation: Snapshot) -> None:
    priority = {job.id: job.priority for job in (*situation.pending, *situation.running)}
    for stop in plan(situation, PRODUCTION).stops:
        if stop.kind is StopKind.EVICTED:
            assert priority[stop.job_id] > priority[stop.for_job]


@given(snapshot=snapshots())
def test_rounds_with_eviction_come_to_rest(snapshot: Snapshot) -> None:
    """Each round that stops somebody starts somebody in the next, so it cannot go on for ever."""
    now = snapshot
    for _ in range(len(snapshot.pending) + 1):
        made = plan(now, SHORTEST)
        running_ids = {job.id for job in now.running}
        assert set(made.preemptions) <= running_ids
        if not made.preemptions:
            return
        now = after_round(now, made)
    raise AssertionError("still evicting after as many rounds as there are jobs")


def after_round(before: Snapshot, made: Plan) -> Snapshot:
    """What the world makes of a plan, at the same instant."""
    free = {each.id: set(each.free_slots) for each in before.nodes}
    used = Counter({(share.team, share.gpu_type): share.used for share in before.teams})
    waiting = {job.id: job for job in before.pending}
    held = {job.id: job for job in before.running}
    for placement in made.placements:
        job = waiting.pop(placement.job_id)
        where = tuple((seat.node, seat.slots) for seat in placement.members)
        for name, slots in where:
            free[name] -= set(slots)
            used[job.team, job.gpu_type] += len(slots)
        held[job.id] = RunningJob(
            job.id, job.team, job.gpu_type, job.priority, where, before.now_ms, before.now_ms + job.max_runtime_ms,
            None, job.preemptible, job.num_gpus, job.min_gpus, job.submitted_ms,
        )  # fmt: skip
    for job_id in made.preemptions:
        stopped = held.pop(job_id)
        # It waits with the limit that it stated: nothing shorter may be placed before maintenance.
        waiting[job_id] = replace(as_if_waiting(stopped, before.now_ms), expected_runtime_ms=None)
        used[stopped.team, stopped.gpu_type] -= stopped.held
        for name, slots in stopped.placement:
            free[name] |= set(slots)
    for room in made.node_reservations:
        asks = waiting[room.job_id]
        waiting[room.job_id] = replace(asks, reserved_nodes=room.nodes, reserved_until_ms=room.until_ms)
    nodes: list[NodeView] = [replace(each, free_slots=tuple(sorted(free[each.id]))) for each in before.nodes]
    teams = tuple([replace(each, used=used[each.team, each.gpu_type]) for each in before.teams])
    return replace(
        before, nodes=tuple(nodes), pending=tuple(waiting.values()), running=tuple(held.values()), teams=teams
    )
