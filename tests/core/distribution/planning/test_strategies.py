"""Any strategy's plan as what nodes are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning.estimate import STRATEGIES, Conditions, compare
from platform_core.distribution.planning.forest import STORE, Tree, node_plans
from platform_core.distribution.planning.repair import mend
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.planning.strategies import NAMES, grow

PLACES = st.lists(st.integers(0, 3), min_size=1, max_size=20).map(
    lambda racks: tuple(Place(f"n{number:02}", f"rack-{rack}") for number, rack in enumerate(racks))
)


def test_there_is_a_forest_for_everything_that_is_compared() -> None:
    places = (Place("a"), Place("b"))
    assert {each.strategy for each in compare(places, Conditions(100, 10, 10, 10))} == set(NAMES)
    with pytest.raises(KeyError):
        grow("teleport", places)


@given(st.sampled_from(NAMES), PLACES)
def test_everybody_is_connected_to_the_store(strategy: str, places: tuple[Place, ...]) -> None:
    grown = grow(strategy, places)
    tree = Tree(grown)
    assert set(tree.seats) == {place.node for place in places}
    for node in tree.seats:
        for lane in range(grown.lanes):
            path = [node, *tree.above(node, lane)]
            assert tree.seats[path[-1]].parents[lane] == STORE
            assert len(set(path)) == len(path)


@given(st.sampled_from(sorted(STRATEGIES)), PLACES)
def test_each_node_follows_whom_the_planner_says_and_knows_the_store(
    strategy: str, places: tuple[Place, ...]
) -> None:
    links = {link.node: link for link in STRATEGIES[strategy](places)}
    for plan in node_plans(grow(strategy, places)):
        [lane] = plan.lanes
        first = links[plan.node].predecessors[:1] or (STORE,)
        assert lane[:1] == first
        assert lane[-1] == STORE
        assert plan.node not in lane


@given(st.sampled_from(NAMES), PLACES, st.data())
def test_it_is_mended_like_the_mesh(strategy: str, places: tuple[Place, ...], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from([place.node for place in places])))
    after = mend(grow(strategy, places), gone)
    tree = Tree(after)
    assert set(tree.seats) == {place.node for place in places} - gone
    for node in tree.seats:
        for lane in range(after.lanes):
            assert tree.seats[[node, *tree.above(node, lane)][-1]].parents[lane] == STORE
