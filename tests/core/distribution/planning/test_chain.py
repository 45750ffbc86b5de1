from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning import chain
from platform_core.distribution.planning.routes import Place, crossings

PLACES = st.lists(
    st.builds(Place, st.uuids().map(str), st.sampled_from("rst"), st.sampled_from("bc")),
    min_size=1, max_size=40, unique_by=lambda p: p.node,
).map(tuple)  # fmt: skip


@given(PLACES)
def test_every_worker_has_one_place_and_knows_only_those_before_it(places: tuple[Place, ...]) -> None:
    links = chain.plan(places)
    order = [link.node for link in links]
    assert sorted(order) == sorted(place.node for place in places)
    for position, link in enumerate(links):
        assert link.position == position
        assert set(link.predecessors) <= set(order[:position])
        assert len(link.predecessors) == min(position, chain.MAX_PREDECESSORS)
        if position:
            assert link.predecessors[0] == order[position - 1]
            assert link.predecessors[-1] == order[0] or position <= chain.MAX_PREDECESSORS


@given(PLACES)
def test_the_chain_crosses_into_each_rack_once(places: tuple[Place, ...]) -> None:
    racks = {(place.block, place.rack) for place in places}
    assert crossings(chain.plan(places), places) == len(racks) - 1


@given(PLACES, st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_named_does_not_matter(places: tuple[Place, ...], rng) -> None:
    shuffled = list(places)
    rng.shuffle(shuffled)
    assert chain.plan(tuple(shuffled)) == chain.plan(places)
