from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning import forest as f
from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.repair import changed_nodes, mend
from platform_core.distribution.planning.routes import Place


def places_in(racks: list[int]) -> list[Place]:
    return [
        Place(f"n{r:02}-{n:03}", f"r{r:02}", f"b{r // 3}")
        for r, size in enumerate(racks)
        for n in range(size)
    ]


RACKS = st.lists(st.integers(1, 12), min_size=1, max_size=9).map(places_in)
LANES = st.integers(1, 8)


def is_sound(forest: f.Forest) -> bool:
    """Every lane is one tree below the store that holds everybody."""
    tree = f.Tree(forest)
    for lane in range(forest.lanes):
        roots = [seat.node for seat in forest.seats if seat.parents[lane] == f.STORE]
        assert len(roots) == 1
        for node in tree.seats:
            above = tree.above(node, lane)
            assert len(set(above)) == len(above)
            assert node not in above
            assert (above or [node])[-1] == roots[0]
    return True


@given(RACKS, LANES)
def test_each_lane_is_a_tree_and_no_node_gives_more_slots_than_it_has(
    places: list[Place], lanes: int
) -> None:
    forest = mesh.plan(places, lanes)
    assert is_sound(forest)
    assert f.most_children(forest.seats) <= lanes


@given(RACKS, LANES)
def test_one_copy_enters_each_rack_and_no_more(places: list[Place], lanes: int) -> None:
    assert f.crossings(mesh.plan(places, lanes)) == len({place.rack for place in places}) - 1


@given(st.lists(st.integers(8, 20), min_size=1, max_size=6).map(places_in), st.integers(2, 4))
def test_no_node_depends_on_one_other_for_two_lanes(places: list[Place], lanes: int) -> None:
    for seat in mesh.plan(places, lanes).seats:
        known = [parent for parent in seat.parents if parent != f.STORE]
        assert len(set(known)) == len(known)


def test_with_two_lanes_no_node_depends_on_one_other_after_two_failures_either() -> None:
    forest = mend(mesh.plan(places_in([12])), gone={"n00-000"})
    for seat in mend(forest, gone={"n00-002"}).seats:
        assert len(set(seat.parents)) == 2


def test_a_few_nodes_get_two_lanes_and_many_get_four() -> None:
    assert {size: mesh.plan(places_in([size])).lanes for size in (1, 16, 24, 25, 1000)} == {
        1: 2, 16: 2, 24: 2, 25: 4, 1000: 4,
    }  # fmt: skip


@given(RACKS, LANES)
def test_hardly_any_node_is_inner_in_more_than_two_lanes(places: list[Place], lanes: int) -> None:
    tree = f.Tree(mesh.plan(places, lanes))
    if min(sum(p.rack == q.rack for p in places) for q in places) > lanes:
        assert all(len({lane for _, lane in children}) <= 3 for children in tree.children.values())


@given(RACKS, LANES, st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_named_does_not_matter(places: list[Place], lanes: int, rng) -> None:
    shuffled = list(places)
    rng.shuffle(shuffled)
    assert mesh.plan(shuffled, lanes) == mesh.plan(places, lanes)


@given(RACKS, LANES)
def test_a_node_is_told_a_few_names_and_no_pieces(places: list[Place], lanes: int) -> None:
    for plan in f.node_plans(mesh.plan(places, lanes)):
        for sources in plan.lanes:
            assert len(sources) <= f.MOST_SOURCES
            assert plan.node not in sources
            assert sources[-1] == f.STORE


def test_a_thousand_workers_are_planned_in_under_a_second() -> None:
    begun = time.process_time()
    forest = mesh.plan(places_in([25] * 40))
    f.node_plans(forest)
    assert time.process_time() - begun < 1
    assert max(f.depths(forest)) <= 12


def test_pieces_are_dealt_to_the_lanes_in_turn() -> None:
    assert [f.lane_length(10, lane, 4) for lane in range(4)] == [3, 3, 2, 2]
    assert [f.lane_length(2, lane, 4) for lane in range(4)] == [1, 1, 0, 0]


@given(RACKS, LANES, st.data())
def test_whatever_is_lost_comes_back_or_slows_down_the_mended_forest_is_sound(places, lanes, data) -> None:
    forest = mesh.plan(places, lanes)
    names = [place.node for place in places]
    for _ in range(3):
        there = {seat.node for seat in forest.seats}
        gone = data.draw(st.sets(st.sampled_from(names), max_size=len(names) // 3))
        if there <= gone:
            continue
        back = [place for place in places if place.node not in there and place.node not in gone]
        slow = dict.fromkeys(data.draw(st.sets(st.sampled_from(names), max_size=3)), 50)
        if there - gone <= set(slow):
            slow = {}
        before, forest = forest, mend(forest, gone, back, slow)
        assert {seat.node for seat in forest.seats} == (there - gone) | {place.node for place in back}
        assert is_sound(forest)
        pace = {seat.node: seat.pace for seat in forest.seats}
        for seat in forest.seats:
            assert all(parent == f.STORE or pace[parent] >= seat.pace for parent in seat.parents)
        assert mend(forest) == forest
        assert set(changed_nodes(before, forest)) <= {seat.node for seat in forest.seats}


def test_one_lost_node_of_a_thousand_changes_only_the_places_of_its_children() -> None:
    forest = mesh.plan(places_in([25] * 40))
    orphans = {seat.node for seat in forest.seats if "n07-003" in seat.parents}
    mended = mend(forest, gone={"n07-003"})
    assert set(changed_nodes(forest, mended)) == orphans
    assert f.most_children(mended.seats) <= forest.lanes
    assert f.crossings(mended) <= 39 + 1


def test_slow_nodes_hang_below_each_other_and_nobody_below_them() -> None:
    forest = mesh.plan(places_in([25] * 40))
    slow = {f"n{rack:02}-{number:03}": 50 for rack in range(40) for number in (rack % 25,)}
    mended = mend(forest, pace=slow)
    assert f.most_children(mended.seats) <= forest.lanes
    assert max(f.depths(mended)) <= 25
    fed_by_the_quick = sum(
        parent not in slow for seat in mended.seats if seat.node in slow for parent in seat.parents
    )
    assert fed_by_the_quick == forest.lanes  # one copy for all of them


def test_one_follower_too_many_costs_only_few_and_leaves_for_the_next_free_slot() -> None:
    """Slow trees of two paces keep slots that no quick node can use: one of the quick has nowhere to go."""
    forest = mesh.plan(places_in([25] * 8))
    for paces in (
        {"n07-024": 70, "n02-024": 70, "n00-004": 70, "n06-001": 50},
        {"n02-018": 50, "n04-013": 50, "n00-003": 50, "n06-008": 70, "n04-016": 70},
    ):
        forest = mend(forest, pace=paces)
    children = f.Tree(forest).children
    (crowded,) = (node for node, followers in children.items() if len(followers) > forest.lanes)
    assert all((lane not in [below for _, below in children[node]]) for node, lane in children[crowded])
    assert f.most_children(mend(forest, gone={"n00-004"}).seats) <= forest.lanes


def test_newcomers_stand_all_over_the_forest_and_the_mended_places_stay_few() -> None:
    places = places_in([25] * 8)
    forest = mesh.plan(places)
    back = [place for place in places if place.node in ("n01-003", "n05-020", "n06-011")]
    without = mend(forest, gone={place.node for place in back})
    mended = mend(without, joined=back)
    tree = f.Tree(mended)
    for place in back:
        assert len(set(tree.seats[place.node].parents)) > 1
    assert len(changed_nodes(without, mended)) <= len(back) * (1 + forest.lanes)
    assert f.most_children(mended.seats) <= forest.lanes
    assert f.crossings(mended) <= 7 + 2


@pytest.mark.parametrize("staying", [0, 1, 40, 99])
def test_where_most_are_new_the_forest_is_as_flat_as_a_planned_one(staying: int) -> None:
    """Agents everywhere are restarted within seconds; and the slow ones are still known."""
    places = places_in([25] * 8)
    slow = {"n03-004": 50, "n05-011": 50}
    forest = mend(mesh.plan(places), pace=slow)
    mended = mend(forest, {place.node for place in places[staying:]}, places[staying:], slow)
    assert is_sound(mended)
    assert max(f.depths(mended)) <= max(f.depths(forest)) + 2
    assert {seat.node: seat.pace for seat in mended.seats if seat.pace != 100} == slow


def test_a_quick_newcomer_among_slow_nodes_becomes_the_root() -> None:
    places = places_in([3])
    slow = mend(mend(mesh.plan(places), gone={"n00-002"}), pace={"n00-000": 50, "n00-001": 50})
    mended = mend(slow, joined=places[2:])
    assert is_sound(mended)
    assert {seat.node: set(seat.parents) for seat in mended.seats}["n00-002"] == {f.STORE}


@given(RACKS, LANES, st.data())
def test_whoever_is_gone_its_followers_find_free_slots_without_a_word_to_anybody(
    places: list[Place], lanes: int, data: st.DataObject
) -> None:
    """Each turns to the second name in its plan: still a tree a lane, and nobody serves more than before."""
    forest = mesh.plan(places, lanes)
    gone = data.draw(st.sampled_from(places)).node
    plans = {plan.node: plan for plan in f.node_plans(forest)}
    left = tuple(
        f.Seat(
            seat.node, seat.rack, tuple(next(n for n in lane if n != gone) for lane in plans[seat.node].lanes)
        )
        for seat in forest.seats
        if seat.node != gone
    )
    if left:
        assert is_sound(f.Forest(lanes, left))
        assert f.most_children(left) <= lanes
