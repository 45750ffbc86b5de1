"""Where gangs go."""

from __future__ import annotations

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.scheduling.engine import plan
from tests.core.scheduling.situations import node, pending, snapshot

Where = dict[str, tuple[int, ...]]


def place(nodes: list[NodeView], *queue: PendingJob) -> list[Where | None]:
    """Where each job went (node: slot indices), in the order they are given; None for those that wait."""
    placed = {each.job_id: each for each in plan(snapshot(nodes, queue)).placements}
    return [
        {seat.node.removeprefix("node-"): seat.slots for seat in placed[job.id].members}
        if job.id in placed
        else None
        for job in queue
    ]


def test_a_small_job_fills_the_gap_and_leaves_the_whole_node_free() -> None:
    assert place([node("a"), node("b", free=3)], pending("x", 2)) == [{"b": (5, 6)}]


def test_an_exact_gap_is_preferred_to_a_larger_one() -> None:
    assert place([node("a", free=4), node("b", free=2)], pending("x", 2)) == [{"b": (6, 7)}]


def test_a_gang_takes_one_node_where_one_suffices() -> None:
    assert place([node("a", free=4), node("b", free=4), node("c")], pending("x", 8)) == [
        {"c": (0, 1, 2, 3, 4, 5, 6, 7)}
    ]


def test_a_gang_over_nodes_takes_equal_parts_of_the_fewest_nodes() -> None:
    nodes = [node(name, slots=3) for name in "abc"]
    assert place(nodes, pending("x", 6)) == [{"a": (0, 1, 2), "b": (0, 1, 2)}]


def test_a_gang_waits_rather_than_run_in_unequal_parts() -> None:
    assert place([node("a", free=4), node("b", free=2)], pending("x", 6)) == [None]


def test_a_gang_that_fits_one_node_waits_for_one_node() -> None:
    assert place([node(name, free=2) for name in "abc"], pending("x", 6)) == [None]


def test_a_gang_of_several_nodes_waits_for_whole_ones() -> None:
    nodes = [node("a", slots=2), *(node(name, slots=2, free=1) for name in "bcd")]
    assert place(nodes, pending("x", 4)) == [None]


def test_a_lost_node_does_not_keep_a_gang_waiting_for_a_node_as_large() -> None:
    nodes = [node("a", state=NodeState.LOST), node("b", slots=4), node("c", slots=4)]
    assert place(nodes, pending("x", 8)) == [{"b": (0, 1, 2, 3), "c": (0, 1, 2, 3)}]


def test_two_nodes_of_one_rack_are_nearer_than_two_racks() -> None:
    nodes = [node("a", rack="r1"), node("b", rack="r2"), node("c", rack="r2")]
    assert place(nodes, pending("x", 16)) == [{"b": tuple(range(8)), "c": tuple(range(8))}]


def test_the_smaller_rack_that_suffices_is_taken() -> None:
    nodes = [node(name, rack="r1", slots=2) for name in "abc"] + [
        node(name, rack="r2", slots=2) for name in "de"
    ]
    assert place(nodes, pending("x", 4)) == [{"d": (0, 1), "e": (0, 1)}]


def test_two_racks_of_one_block_are_nearer_than_two_blocks() -> None:
    nodes = [
        node("a", block="b1", rack="r1", slots=2),
        node("b", block="b2", rack="r2", slots=2),
        node("c", block="b2", rack="r3", slots=2),
    ]
    assert place(nodes, pending("x", 4)) == [{"b": (0, 1), "c": (0, 1)}]


def test_racks_of_the_same_name_in_two_blocks_are_two_racks() -> None:
    nodes = [
        node("a", block="b1", rack="r1", slots=2),
        node("b", block="b2", rack="r1", slots=2),
        node("c", block="b2", rack="r1", slots=2),
    ]
    assert place(nodes, pending("x", 4)) == [{"b": (0, 1), "c": (0, 1)}]


def test_a_gang_larger_than_every_block_spans_blocks() -> None:
    nodes = [node(name, block=f"b{number}", slots=2) for number, name in enumerate("abc")]
    assert place(nodes, pending("x", 6)) == [{"a": (0, 1), "b": (0, 1), "c": (0, 1)}]


def test_within_a_rack_the_fullest_nodes_are_taken() -> None:
    nodes = [node("a"), node("b", free=5), node("c", free=6), node("d", free=5)]
    assert place(nodes, pending("x", 10, excluded=["a"])) == [{"b": (3, 4, 5, 6, 7), "d": (3, 4, 5, 6, 7)}]


def test_a_gang_that_is_too_large_for_a_node_takes_two() -> None:
    nodes = [node("a", slots=2), node("b", slots=2)]
    assert place(nodes, pending("x", 4)) == [{"a": (0, 1), "b": (0, 1)}]


def test_ranks_follow_blocks_racks_and_names() -> None:
    nodes = [node("a", rack="r2", slots=1), node("b", rack="r1", slots=1), node("c", rack="r1", slots=1)]
    [placement] = plan(snapshot(nodes, [pending("x", 3)])).placements
    assert [(seat.rank, seat.node) for seat in placement.members] == [
        (0, "node-b"),
        (1, "node-c"),
        (2, "node-a"),
    ]
    assert placement.reason == "3 GPUs of a100 on 3 nodes in 2 racks, 1 on each"


def test_a_large_gang_that_does_not_fit_is_passed_by_a_small_one() -> None:
    assert place([node("a", free=4)], pending("big", 8, priority=0), pending("small", 4)) == [
        None,
        {"a": (4, 5, 6, 7)},
    ]


def test_where_a_job_fits_nowhere_else_it_starts_again_on_the_node_it_failed_on_and_says_so() -> None:
    [placement] = plan(snapshot([node("a")], [pending("x", 4, excluded=["a"])])).placements
    assert [seat.node for seat in placement.members] == ["node-a"]
    assert placement.reason == (
        "4 GPUs of a100 on one node, the tightest fit; "
        "again on a, where it failed before: it fits nowhere else"
    )
