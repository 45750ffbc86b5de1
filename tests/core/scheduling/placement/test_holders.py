"""Nodes that hold the data of a job are preferred among equally good ones, and it never waits for them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import NodeView, Snapshot
from platform_core.scheduling.engine import plan
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import node, pending, snapshot


def placed(*nodes: NodeView, gpus: int, holders: tuple[str, ...]) -> tuple[list[str], str]:
    """The nodes of the only job, and the reason."""
    job = replace(pending("job", gpus), holders=holders)
    (placement,) = plan(snapshot(nodes, [job])).placements
    return [seat.node for seat in placement.members], placement.reason


def test_of_equally_tight_nodes_the_one_that_holds_the_data_is_taken() -> None:
    nodes = [node(name, slots=4) for name in "abc"]
    where, reason = placed(*nodes, gpus=2, holders=("node-c", "node-gone"))
    assert where == ["node-c"]
    assert reason.endswith("; its dataset is there already")


def test_a_tighter_node_without_the_data_comes_first() -> None:
    nodes = [node("a", slots=2), node("b", slots=8)]
    assert placed(*nodes, gpus=2, holders=("node-b",))[0] == ["node-a"]


def test_a_gang_takes_the_holders_of_its_rack_first() -> None:
    where, reason = placed(*(node(name, slots=2) for name in "abcd"), gpus=4, holders=("node-b", "node-d"))
    assert where == ["node-b", "node-d"]
    assert reason.endswith("; its dataset is on all of them already")


def test_an_island_with_room_counts_for_more_than_the_data() -> None:
    pairs = ((0, 1), (2, 3))
    nodes = [node("a", slots=4, free=[1, 2], islands=pairs), node("b", slots=4, free=[2, 3], islands=pairs)]
    assert placed(*nodes, gpus=2, holders=("node-a",))[0] == ["node-b"]


@given(snapshots(), st.data())
def test_who_starts_does_not_depend_on_where_the_data_is(situation: Snapshot, data: st.DataObject) -> None:
    ids = [one.id for one in situation.nodes]
    held = [
        replace(job, holders=tuple(data.draw(st.sets(st.sampled_from(ids)))) if ids else ())
        for job in situation.pending[:1]
    ]
    moved = replace(situation, pending=(*held, *situation.pending[1:]))
    first, second = plan(situation), plan(moved)
    if held:
        started = [placement.job_id for placement in first.placements]
        assert (held[0].id in started) == (held[0].id in [one.job_id for one in second.placements])
