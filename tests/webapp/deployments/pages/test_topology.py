"""The drawing of who feeds whom: racks with their nodes, arcs with their bytes, as many as a screen can show."""

from typing import Any

from tests.webapp.deployments.pages.test_movement import worker
from webapp.pages.deployments import topology


def three() -> list[Any]:
    return [
        worker("a", bytes_done=50, rate_in=7.0, lanes=[["", "c"], ["b", ""]], held=[30, 20], store_bytes=50),
        worker("b", state="complete", bytes_done=100, lanes=[["a", ""], ["c", "a"]], store_bytes=25),
        worker("c", rack="rack-2", lanes=[["a", ""], ["a", "b"]], held=[6, 4], bytes_done=10, rate_in=3.0),
    ]


def test_rows_say_what_a_rack_has_and_who_feeds_it() -> None:
    told = topology.drawing(three())
    assert [
        (row["name"], row["ready"], row["percent"], row["from_store"], row["fed_by"]) for row in told["rows"]
    ] == [
        ("rack-1", "1 of 2", "75 %", 0.75, ["the store", "rack-2"]),
        ("rack-2", "0 of 1", "10 %", 0.0, ["rack-1"]),
    ]
    assert told["copies"] == "0.75"
    assert told["rows"][0]["label"] == "rack-1: 1 complete, 1 receiving"


def test_arcs_carry_what_came_by_each_lane_and_what_stays_in_a_rack_is_none() -> None:
    carried = topology.feeds(topology.groups(three()))
    assert carried == {("", "rack-1"): 75, ("rack-2", "rack-1"): 50, ("rack-1", "rack-2"): 10}
    words = [arc["words"] for arc in topology.drawing(three())["arcs"]]
    assert words == ["rack-1 to rack-2: 10 B", "rack-2 to rack-1: 50 B", "the store to rack-1: 75 B"]
    kinds = [arc["kind"] for arc in topology.drawing(three())["arcs"]]
    assert kinds == ["main", "side", "main"], "each rack's heaviest stands out"


def test_what_is_planned_is_drawn_before_anything_has_come() -> None:
    told = topology.drawing([worker("a", lanes=[[""]]), worker("b", rack="rack-2", lanes=[["a"]])])
    assert [(arc["kind"], arc["words"]) for arc in told["arcs"]] == [
        ("none", "the store to rack-1: nothing yet"),
        ("none", "rack-1 to rack-2: nothing yet"),
    ]
    assert told["label"] == "the store feeds rack-1; rack-1 feeds rack-2. The table says how much."


def test_a_cell_is_as_high_as_its_node_is_far_and_says_so() -> None:
    (row,) = topology.drawing(
        [
            worker("a", bytes_done=40),
            worker("b", state="failed"),
            worker("c", state="complete", bytes_done=100),
        ]
    )["rows"]
    assert [(cell["kind"], cell["y"], cell["height"], cell["words"]) for cell in row["cells"]] == [
        ("now", 60, 40, "a: receiving, 40 %"),
        ("bad", 0, 100, "b: failed"),
        ("have", 0, 100, "c: complete"),
    ]


def test_of_more_racks_than_fit_blocks_are_drawn_and_without_blocks_the_last_are_one() -> None:
    hundred = [worker(f"n{n:03}", rack=f"r{n:03}", block=f"b{n // 50}") for n in range(100)]
    assert [(row["name"], row["nodes"]) for row in topology.drawing(hundred)["rows"]] == [
        ("b0", 50),
        ("b1", 50),
    ]
    alone = topology.drawing([worker(f"n{n:03}", rack=f"r{n:03}") for n in range(100)])
    assert len(alone["rows"]) == topology.MOST_ROWS
    assert (alone["rows"][-1]["name"], alone["rows"][-1]["nodes"]) == ("53 more racks", 53)


def test_ten_thousand_nodes_are_drawn_as_stretches() -> None:
    many = [worker(f"n{n}", state="complete" if n % 10 else "failed") for n in range(10_000)]
    (row,) = topology.drawing(many)["rows"]
    assert "cells" not in row
    assert row["runs"][:2] == [(0, 1, "bad"), (1, 9, "have")]


def test_arcs_begin_and_end_at_the_rows() -> None:
    told = topology.drawing(
        [worker(f"n{n}", rack=f"r{n}", lanes=[[f"n{n - 1}" if n else ""]]) for n in range(4)]
    )
    assert told["height"] == 5 * 44
    ends = [float(arc["path"].split()[-1]) for arc in told["arcs"]]
    assert [int(end // 44) for end in ends] == [1, 2, 3, 4]


def test_racks_with_long_names_get_room_for_them() -> None:
    told = [topology.drawing([worker("a", rack=rack)])["named"] for rack in ("rack-1", "row-0-rack-07")]
    assert told == [False, True]
