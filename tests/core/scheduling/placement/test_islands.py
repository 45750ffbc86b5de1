"""Slots of a node that are linked with each other: who shares an island, and which stay whole."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import NodeView, Snapshot
from platform_core.cluster.topology import Islands, islands, numbered
from platform_core.scheduling.engine import plan
from platform_core.scheduling.metrics.fragmentation import measured
from platform_core.scheduling.placement.search import take_slots
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import node, pending, snapshot

TWO_OF_FOUR = ((0, 1, 2, 3), (4, 5, 6, 7))


@st.composite
def nodes_with_islands(draw: st.DrawFn) -> tuple[tuple[int, ...], Islands]:
    """Free slots, and islands of any size over all slots."""
    numbers = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    free = draw(st.sets(st.integers(0, len(numbers) - 1)))
    return tuple(sorted(free)), islands(enumerate(numbers))


def by_island(slots: tuple[int, ...], of: Islands) -> list[int]:
    return [number for number, island in enumerate(of) if set(island) & set(slots)]


def test_slots_by_their_number_make_islands() -> None:
    assert islands(enumerate([1, 1, 2, 2])) == ((0, 1), (2, 3))
    assert islands(enumerate([2, 0, 2, 0])) == ((0, 2), (1,), (3,))


def test_there_is_nothing_to_choose_where_all_are_linked_or_none_is() -> None:
    assert islands(enumerate([1, 1, 1])) == islands(enumerate([0, 0, 0])) == islands([]) == ()


def test_links_of_pairs_make_islands() -> None:
    assert numbered(6, [(0, 1), (2, 1), (4, 5)]) == (1, 1, 1, 0, 2, 2)
    assert numbered(2, []) == (0, 0)


def test_a_part_takes_the_island_with_the_least_that_suffices() -> None:
    assert take_slots((1, 2, 3, 4, 5, 6, 7), TWO_OF_FOUR, 3) == ((1, 2, 3), (4, 5, 6, 7))
    assert take_slots((3, 4, 5, 6, 7), TWO_OF_FOUR, 2) == ((4, 5), (3, 6, 7))


def test_a_part_larger_than_any_island_takes_as_few_as_can_be() -> None:
    assert take_slots(tuple(range(8)), TWO_OF_FOUR, 6) == ((0, 1, 2, 3, 4, 5), (6, 7))
    assert take_slots((1, 2, 3, 4), ((0, 1, 2), (3, 4, 5)), 3) == ((1, 2, 3), (4,))


def test_an_island_in_part_in_use_goes_before_one_that_is_whole() -> None:
    assert take_slots((0, 1, 4, 5), ((0, 1), (2, 3, 4, 5)), 2) == ((4, 5), (0, 1))


def test_of_equally_tight_nodes_the_one_with_room_in_an_island_is_taken() -> None:
    nodes = [
        node("a", free=[2, 3, 6, 7], islands=TWO_OF_FOUR),
        node("b", free=[4, 5, 6, 7], islands=TWO_OF_FOUR),
    ]
    (placement,) = plan(snapshot(nodes, [pending("four", 4)])).placements
    assert placement.members[0][0::2] == ("node-b", (4, 5, 6, 7))


def test_two_jobs_of_one_round_do_not_share_an_island_that_each_could_have() -> None:
    nodes = [node("a", islands=TWO_OF_FOUR)]
    placed = plan(snapshot(nodes, [pending("one", 4), pending("two", 4)])).placements
    assert [each.members[0].slots for each in placed] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_each_node_of_a_gang_gives_an_island_of_its_own() -> None:
    nodes = [node(name, slots=5, islands=((0,), (1, 2, 3, 4))) for name in "ab"]
    (placement,) = plan(snapshot(nodes, [pending("gang", 8)])).placements
    assert [seat.slots for seat in placement.members] == [(1, 2, 3, 4), (1, 2, 3, 4)]


def test_free_slots_in_islands_in_part_in_use_are_counted() -> None:
    nodes = [
        node("a", free=[1, 4, 5, 6, 7], islands=TWO_OF_FOUR),
        node("b", islands=TWO_OF_FOUR),
        node("c", free=3),
    ]
    found = measured("", nodes)
    assert (found.free, found.broken, found.off_island) == (16, 8, 1)


@given(nodes_with_islands(), st.data())
def test_all_come_from_one_island_if_one_has_enough_and_that_with_the_least(
    situation: tuple[tuple[int, ...], Islands], data: st.DataObject
) -> None:
    free, of = situation
    count = data.draw(st.integers(0, len(free)))
    taken, left = take_slots(free, of, count)
    assert len(taken) == count
    assert tuple(sorted((*taken, *left))) == free
    enough = [len(set(island) & set(free)) for island in of if len(set(island) & set(free)) >= count]
    if count and enough:
        (number,) = by_island(taken, of)
        assert len(set(of[number]) & set(free)) == min(enough)


@given(snapshots(), st.data())
def test_every_part_lies_in_one_island_where_its_node_had_one_with_enough(
    situation: Snapshot, data: st.DataObject
) -> None:
    linked = replace(situation, nodes=tuple(_with_islands(each, data) for each in situation.nodes))
    free = {each.id: set(each.free_slots) for each in linked.nodes}
    of = {each.id: each.islands for each in linked.nodes}
    for placement in plan(linked).placements:
        for seat in placement.members:
            assert set(seat.slots) <= free[seat.node]
            enough = [i for i in of[seat.node] if len(free[seat.node] & set(i)) >= len(seat.slots)]
            if enough:
                assert any(set(seat.slots) <= set(island) for island in enough)
            free[seat.node] -= set(seat.slots)


def _with_islands(view: NodeView, data: st.DataObject) -> NodeView:
    numbers = data.draw(st.lists(st.integers(0, 2), min_size=view.slots, max_size=view.slots))
    return replace(view, islands=islands(enumerate(numbers)))


@given(snapshots(), st.data())
def test_islands_change_neither_the_order_nor_whether_anybody_starts(
    situation: Snapshot, data: st.DataObject
) -> None:
    linked = replace(situation, nodes=tuple(_with_islands(each, data) for each in situation.nodes))
    before, after = plan(situation), plan(linked)
    assert before.order == after.order
    assert bool(before.placements) == bool(after.placements)
