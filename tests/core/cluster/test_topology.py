from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.topology import Distance, Location, diameter, distance, spread

PLACES = st.lists(
    st.builds(Location, st.sampled_from("abcdef"), st.just(""), st.just("")).map(
        # a node stands in one place only
        lambda place: Location(place.node, rack=str(ord(place.node) % 3), block=str(ord(place.node) % 2))
    ),
    max_size=6,
)


def test_each_layer_of_switches_is_one_further():
    here = Location("n1", "r1", "b1")
    assert distance(here, here) is Distance.SAME_NODE
    assert distance(here, Location("n2", "r1", "b1")) is Distance.SAME_RACK
    assert distance(here, Location("n3", "r2", "b1")) is Distance.SAME_BLOCK
    assert distance(here, Location("n4", "r1", "b2")) is Distance.FAR


@given(PLACES)
def test_the_diameter_is_the_greatest_distance_of_any_two(places: list[Location]):
    pairs = itertools.product(places, repeat=2)
    assert diameter(places) == max((distance(one, other) for one, other in pairs), default=Distance.SAME_NODE)


@given(PLACES)
def test_distance_is_the_same_from_both_ends_and_obeys_the_triangle(places: list[Location]):
    for one, other, third in itertools.product(places, repeat=3):
        assert distance(one, other) == distance(other, one)
        assert distance(one, third) <= max(distance(one, other), distance(other, third))


def test_a_spread_is_told_in_words():
    places = [Location("n1", "r1", "b1"), Location("n2", "r1", "b1"), Location("n3", "r1", "b2")]
    assert spread(places[:1]).sentence == "1 node"
    assert spread(places[:2]).sentence == "2 nodes in 1 rack"
    assert spread(places).sentence == "3 nodes in 2 racks of 2 blocks"
