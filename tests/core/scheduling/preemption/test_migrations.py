"""Where a job is moved to, its slots stay free until it starts there, for a bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import NodeReservation, Plan, WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.ordering.test_size_and_wait import HOUR_MS, OURS, busy
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, snapshot, team

# Each node has half of its slots free; one of the two jobs is moved to the other's node, so that the gang has a node.
NODES = [node("a", free=4), node("b", free=4)]
GANG = pending("gang", 8, max_runtime_ms=9 * HOUR_MS)
UNTIL_MS = NOW_MS + OURS.stop_grace_ms + MINUTE_MS


def half(name: str, hours: float) -> RunningJob:
    job = busy(name, {name: range(4)}, hours=hours)
    asks = pending(name, 4, max_runtime_ms=job.max_runtime_ms, submitted_ms=job.submitted_ms)
    return replace(job, asks=asks)


MOVED, STAYS = half("a", 1), replace(half("b", 1), preemptible=False)


def saving(*, room: Sequence[str] = ("node-b",), until_ms: int = UNTIL_MS) -> RunningJob:
    """The moved one after it was told to stop."""
    assert MOVED.asks is not None
    asks = replace(MOVED.asks, reserved_nodes=tuple(room), reserved_until_ms=until_ms)
    return replace(MOVED, asks=asks, stopping=True, preemptible=False)


def waits_for_it(gpus: int = 4, *, hours: float = 0.5, priority: int = 50, name: str = "other") -> PendingJob:
    """It would fit just where the moved one is to go, and comes before it in order."""
    return pending(name, gpus, max_runtime_ms=round(hours * HOUR_MS), priority=priority)


def meanwhile(job: RunningJob, *others: PendingJob, at_ms: int = NOW_MS + 10_000) -> Plan:
    """A round in which the moved one still saves."""
    gang = replace(GANG, reserved_nodes=("node-a",))
    return plan(snapshot(NODES, [gang, *others], held=[job, STAYS], now_ms=at_ms), OURS)


def started(made: Plan) -> set[str]:
    return {each.job_id for each in made.placements}


def test_the_round_that_moves_a_job_keeps_its_new_place() -> None:
    other = waits_for_it(hours=90)
    now = snapshot(NODES, [GANG, other], held=[MOVED, STAYS])
    made = plan(now, OURS)
    assert made.node_reservations == (
        NodeReservation("job-gang", ("node-a",)),
        NodeReservation("job-a", ("node-b",), UNTIL_MS),
    )
    assert started(made) == set()
    assert plan(replace(now, pending=(GANG,)), OURS).node_reservations == made.node_reservations, (
        "also where nobody else waits"
    )
    told = next(wait for wait in made.waits if wait.job_id == "job-other")
    assert told.code is WaitCode.BEHIND
    assert told.sentence == "needs 4 GPUs of a100; job-a migrates to the free GPUs, none is left"
    unreserved = plan(replace(now, running=(replace(MOVED, asks=None), STAYS)), OURS)
    assert started(unreserved) == {"job-other"}


def test_nobody_takes_it_while_the_moved_one_saves() -> None:
    assert started(meanwhile(saving(), waits_for_it())) == set()
    assert started(meanwhile(saving(room=()), waits_for_it())) == {"job-other"}


def test_the_moved_one_waits_for_nothing_and_is_in_no_queue() -> None:
    made = meanwhile(saving(), waits_for_it())
    assert sorted(made.order) == ["job-gang", "job-other"] == sorted(wait.job_id for wait in made.waits)
    first_come = plan(
        snapshot(NODES, [pending("huge", 16), waits_for_it()], held=[saving(), STAYS]),
        Policy("first_come", skip_ahead=False),
    )
    assert sorted(wait.job_id for wait in first_come.waits) == ["job-huge", "job-other"]


def test_what_is_free_beside_it_is_for_others() -> None:
    nodes = [*NODES, node("c", free=2)]
    now = snapshot(nodes, [waits_for_it(2)], held=[saving(), STAYS])
    assert started(plan(now, OURS)) == {"job-other"}
    one_leaves = busy("leaves", {"b": [4, 5]}, hours=1)
    nodes = [node("a", free=0), node("b", free=2)]
    leaving = replace(one_leaves, stopping=True, preemptible=False)
    small = replace(saving(), placement=(("node-a", (0, 1)),))
    now = snapshot(nodes, [waits_for_it(2)], held=[small, leaving])
    assert started(plan(now, OURS)) == set(), "it goes where slots are free now, not where some will be"


def test_it_is_kept_for_a_bounded_time_only() -> None:
    assert started(meanwhile(saving(), waits_for_it(), at_ms=UNTIL_MS - 1)) == set()
    assert started(meanwhile(saving(), waits_for_it(), at_ms=UNTIL_MS)) == {"job-other"}


def test_one_more_urgent_takes_it() -> None:
    assert started(meanwhile(saving(), waits_for_it(priority=49))) == {"job-other"}
    assert started(meanwhile(saving(), waits_for_it(priority=51))) == set()


def test_a_node_that_is_lost_or_drained_is_no_place_and_no_other_is_kept() -> None:
    for state in (NodeState.LOST, NodeState.DRAINING):
        nodes = [node("a", free=0), replace(NODES[1], state=state), node("c", free=4)]
        now = snapshot(nodes, [waits_for_it()], held=[saving(), STAYS])
        [placement] = plan(now, OURS).placements
        assert placement.members[0].node == "node-c"


def test_one_that_does_not_come_or_was_never_stopped_leaves_it_to_others() -> None:
    cancelled, runs_on = replace(saving(), asks=None), replace(saving(), stopping=False)
    for job in (cancelled, runs_on):
        now = snapshot([node("a", free=0), NODES[1]], [waits_for_it()], held=[job, STAYS])
        assert started(plan(now, OURS)) == {"job-other"}


def takes_it(guaranteed: int, *, whose: str) -> bool:
    """Does one of this team within its guarantee take the place of one of nlp, which is guaranteed so much?"""
    moving, stays = (replace(job, team="nlp") for job in (saving(), STAYS))
    assert moving.asks is not None
    moving = replace(moving, asks=replace(moving.asks, team="nlp"))
    teams = [team("nlp", used=8, guaranteed=guaranteed), team("vision", guaranteed=8)]
    other = replace(waits_for_it(), team=whose)
    now = snapshot([node("a", free=0), NODES[1]], [other], held=[moving, stays], teams=teams)
    return started(plan(now, replace(OURS, reclaims=True))) == {"job-other"}


def test_what_its_team_is_guaranteed_is_kept_for_it_and_what_it_borrows_gives_way_to_owners() -> None:
    assert not takes_it(12, whose="nlp")
    assert not takes_it(8, whose="vision")
    assert takes_it(0, whose="vision")


def test_the_quota_counts_it_once() -> None:
    now = snapshot(
        NODES, [waits_for_it(2, name="urgent", priority=10)], held=[saving(), STAYS], teams=[team(used=8, maximum=10)]
    )  # fmt: skip
    assert started(plan(now, OURS)) == {"job-urgent"}


def back(*others: PendingJob, at_ms: int = NOW_MS + 20_000, gone: bool = True) -> Plan:
    """The moved one has saved and waits, and so does the gang."""
    asks = saving().asks
    assert asks is not None
    nodes = [node("a"), NODES[1]]
    gang = replace(GANG, reserved_nodes=("node-a",))
    return plan(snapshot(nodes, [gang, asks, *others], held=[STAYS], now_ms=at_ms), OURS)


def test_once_it_has_saved_it_starts_there_before_its_equals_and_the_gang_in_its_room() -> None:
    made = back(waits_for_it())
    where = {each.job_id: [seat.node for seat in each.members] for each in made.placements}
    assert where == {"job-gang": ["node-a"], "job-a": ["node-b"]}
    late = back(waits_for_it(), at_ms=UNTIL_MS)
    assert started(late) == {"job-gang", "job-other"}


def test_an_elastic_one_keeps_as_much_as_it_held() -> None:
    job = saving()
    assert job.asks is not None
    elastic = replace(job, num_gpus=6, min_gpus=2, asks=replace(job.asks, num_gpus=6, min_gpus=2))
    assert started(meanwhile(elastic, waits_for_it(1))) == set()
    small = replace(elastic, placement=(("node-a", (0, 1)),))
    assert started(meanwhile(small, waits_for_it(2))) == {"job-other"}


newcomers = st.lists(
    st.builds(
        lambda number, gpus, hours, priority: waits_for_it(
            gpus, hours=hours, priority=priority, name=f"n{number}"
        ),
        st.integers(0, 99), st.sampled_from((1, 2, 4, 8)), st.sampled_from((0.2, 1, 20)),
        st.sampled_from((40, 50, 60)),
    ),
    max_size=6, unique_by=lambda job: job.id,
)  # fmt: skip


@given(first=newcomers, second=newcomers, rounds=st.integers(1, 4))
def test_whoever_comes_meanwhile_the_moved_one_starts_where_it_was_told(
    first: list[PendingJob], second: list[PendingJob], rounds: int
) -> None:
    """Unless one more urgent has come. Everybody stays where he started."""
    now = snapshot(NODES, [replace(GANG, reserved_nodes=("node-a",)), *first], held=[saving(), STAYS])
    urgent = any(job.priority < 50 for job in (*first, *second))
    for number in range(rounds):
        now = replace(placed(now, plan(now, OURS)), now_ms=NOW_MS + number * 10_000)
    asks = saving().asks
    assert asks is not None
    nodes = [
        replace(each, free_slots=tuple(sorted({*each.free_slots, 0, 1, 2, 3})))
        if each.id == "node-a"
        else each
        for each in now.nodes
    ]
    late = [job for job in second if job.id not in {each.id for each in (*now.pending, *now.running)}]
    held = tuple(job for job in now.running if job.id != asks.id)
    made = plan(replace(now, nodes=tuple(nodes), pending=(*now.pending, asks, *late), running=held), OURS)
    where = {each.job_id: [seat.node for seat in each.members] for each in made.placements}
    assert urgent or (where.get("job-gang"), where.get("job-a")) == (["node-a"], ["node-b"])


def placed(now: Snapshot, made: Plan) -> Snapshot:
    """Those that start take their slots; whoever is told to stop takes longer than this story."""
    free = {each.id: set(each.free_slots) for each in now.nodes}
    queue = {job.id: job for job in now.pending}
    held = list(now.running)
    for placement in made.placements:
        job = queue.pop(placement.job_id)
        for seat in placement.members:
            assert free[seat.node] >= set(seat.slots)
            free[seat.node] -= set(seat.slots)
        where = {seat.node.removeprefix("node-"): range(0) for seat in placement.members}
        started = busy(job.id.removeprefix("job-"), where, hours=1, ran_hours=0)
        seats = tuple((seat.node, seat.slots) for seat in placement.members)
        held.append(replace(started, placement=seats, priority=job.priority, preemptible=False))
    nodes = tuple(replace(each, free_slots=tuple(sorted(free[each.id]))) for each in now.nodes)
    return replace(now, nodes=nodes, pending=tuple(queue.values()), running=tuple(held))
