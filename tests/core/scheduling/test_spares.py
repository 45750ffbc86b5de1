"""Spare nodes of running gangs: chosen, held under the guarantee of the team, and given to more urgent jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import RunningJob, Snapshot
from platform_core.jobs.constraints import Constraints
from platform_core.scheduling.engine import plan
from platform_core.scheduling.spares import Spare, Wish, choose, hold
from tests.core.scheduling.clusters import TEAMS, snapshots
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import node, pending, running, snapshot, team


def wish(job: RunningJob, count: int = 1, **changes: object) -> dict[str, Wish]:
    like = pending("like", job.num_gpus, gpu_type=job.gpu_type, team=job.team)
    return {job.id: Wish(count, replace(like, **changes))}  # type: ignore[arg-type]


GANG = running("gang", {"a": range(8), "b": range(8)})
BUSY = [node("a", free=0), node("b", free=0)]


def cluster(*more: object, guaranteed: int = 24, queue: tuple[object, ...] = ()) -> Snapshot:
    teams = [team(GANG.team, guaranteed=guaranteed, maximum=100, used=16)]
    return snapshot([*BUSY, *more], list(queue), held=[GANG], teams=teams)  # type: ignore[list-item]


def test_a_free_node_is_held_while_the_team_has_guaranteed_slots_left() -> None:
    assert choose(cluster(node("c")), wish(GANG), ()) == (Spare(GANG.id, "node-c", 8, held=True),)
    assert choose(cluster(node("c"), guaranteed=20), wish(GANG), ()) == (
        Spare(GANG.id, "node-c", 8, held=False),
    )


def test_no_other_job_gets_a_held_spare() -> None:
    other = pending("other", 8)
    before = cluster(node("c"), queue=(other,))
    assert plan(hold(before, choose(before, wish(GANG), ()))).placements == ()
    unheld = cluster(node("c"), queue=(other,), guaranteed=16)
    assert len(plan(hold(unheld, choose(unheld, wish(GANG), ()))).placements) == 1


def test_a_more_urgent_job_gets_it() -> None:
    urgent = pending("urgent", 8, priority=0)
    before = cluster(node("c"), queue=(urgent,))
    spares = choose(before, wish(GANG), ())
    assert [spare.held for spare in spares] == [False]
    assert len(plan(hold(before, spares)).placements) == 1


def test_a_node_with_too_few_slots_a_fault_a_taint_or_on_the_list_is_none() -> None:
    nodes = [
        node("c", free=7), replace(node("d"), out_of_service=True), node("e", taints=("lab",)), node("f"),
    ]  # fmt: skip
    excluded = wish(GANG, constraints=Constraints(excluded_nodes=("node-f",)))
    assert choose(cluster(*nodes), excluded, ()) == ()


def test_a_chosen_node_stays_although_another_fits_better() -> None:
    nodes = [node("c"), node("d")]
    [first] = choose(cluster(*nodes), wish(GANG), ())
    other = next(each.id for each in nodes if each.id != first.node)
    [second] = choose(cluster(*nodes), wish(GANG), [Spare(GANG.id, other, 8, held=True)])
    assert second.node == other


def test_a_stopping_job_has_none_chosen() -> None:
    stopping = replace(cluster(node("c")), running=(replace(GANG, stopping=True),))
    assert choose(stopping, wish(GANG), ()) == ()


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Snapshot, dict[str, Wish]]:
    known = draw(snapshots())
    found: dict[str, Wish] = {}
    for job in known.running:
        if draw(st.booleans()):
            found |= wish(job, draw(st.integers(1, 3)))
    return known, found


@given(wishes())
def test_what_always_holds(case: tuple[Snapshot, dict[str, Wish]]) -> None:
    known, wanted = case
    spares = choose(known, wanted, ())
    assert choose(known, wanted, spares) == spares
    jobs, nodes = {job.id: job for job in known.running}, {each.id: each for each in known.nodes}
    held: Counter[str] = Counter()
    of_team: Counter[tuple[str, str]] = Counter()
    for spare in spares:
        job = jobs[spare.job_id]
        assert spare.node not in dict(job.placement)
        assert nodes[spare.node].takes_work
        assert nodes[spare.node].gpu_type == job.gpu_type
        held[spare.node] += spare.slots * spare.held
        of_team[job.team, job.gpu_type] += spare.slots * spare.held
    assert all(slots <= len(nodes[name].free_slots) for name, slots in held.items())
    for share in known.teams:
        assert of_team[share.team, share.gpu_type] <= max(0, share.guaranteed - share.used)
        assert share.team in TEAMS
    counts = Counter(spare.job_id for spare in spares)
    assert all(count <= wanted[job_id].count for job_id, count in counts.items())


@given(wishes())
def test_a_round_with_held_spares_keeps_the_rules_of_scheduling(
    case: tuple[Snapshot, dict[str, Wish]],
) -> None:
    known, wanted = case
    spares = choose(known, wanted, ())
    decided = plan(hold(known, spares))
    assert not violations(known, decided) & {"slot given twice", "slot was not free", "gang not whole"}
    used: Counter[str] = Counter()
    for placement in decided.placements:
        for seat in placement.members:
            used[seat.node] += len(seat.slots)
    for spare in spares:
        used[spare.node] += spare.slots * spare.held
    for each in known.nodes:
        assert used[each.id] <= len(each.free_slots)
