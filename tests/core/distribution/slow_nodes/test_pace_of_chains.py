"""In a chain a node that takes little looks like one that is given little: who is moved, and who is moved back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning.forest import STORE, Forest
from platform_core.distribution.planning.repair import mend
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.planning.strategies import grow
from platform_core.distribution.slow_nodes.pace import Watch, look
from platform_core.distribution.slow_nodes.windows import Seen

RATE, WINDOW_MS = 1000.0, 4000
Rates = Mapping[str, float]
NONE: Rates = MappingProxyType({})


class World:
    """Each node gets what the one before it gets, as far as both links allow. `way_in`: to a rack from another."""

    def __init__(
        self,
        takes: Rates = NONE,
        gives: Rates = NONE,
        way_in: Rates = NONE,
        strategy: str = "chain",
        jitter: int = 0,
        size: int = 20,
    ) -> None:
        places = tuple(Place(f"n{number:02}", f"r{number // 10}") for number in range(size))
        self.takes, self.gives, self.way_in, self.jitter = dict(takes), gives, way_in, jitter
        self.forest: Forest = grow(strategy, places)
        self.paces: dict[str, int] = {}
        self.held = dict.fromkeys((place.node for place in places), 0.0)
        self.watch, self.now_ms, self.chance = Watch(), 0, random.Random(1)

    def rates(self) -> dict[str, float]:
        seats = {seat.node: seat for seat in self.forest.seats}
        fed = [seat.parents[0] for seat in self.forest.seats]

        def rate(node: str) -> float:
            parent = seats[node].parents[0]
            mine = self.takes.get(node, RATE)
            if parent == STORE:
                return mine
            crosses = seats[parent].rack != seats[node].rack
            way = self.way_in.get(seats[node].rack[1], RATE) if crosses else RATE
            return min(mine, way, rate(parent), self.gives.get(parent, RATE) / fed.count(parent))

        return {node: rate(node) for node in seats}

    def windows(self, count: int) -> list[dict[str, int]]:
        """What is changed at the end of each; the plan follows."""
        return [self.window() for _ in range(count)]

    def window(self) -> dict[str, int]:
        seen = {
            node: Seen(self.now_ms - late, (max(0.0, self.held[node] - rate * late / 1000),))
            for node, rate in self.rates().items()
            for late in [self.chance.randint(0, self.jitter)]
        }
        self.watch, changes = look(self.watch, seen, self.forest.seats, self.jitter)
        changed = dict(changes.paces)
        self.paces |= changed
        if changed:
            self.forest = mend(self.forest, pace=self.paces)
        for node, rate in self.rates().items():
            self.held[node] += rate * WINDOW_MS / 1000
        self.now_ms += WINDOW_MS
        return changed

    def below(self, node: str) -> list[str]:
        return [seat.node for seat in self.forest.seats if node in seat.parents]


def told(changes: list[dict[str, int]]) -> list[dict[str, int]]:
    return [each for each in changes if each]


@given(st.integers(1, 19), st.sampled_from([100.0, 400.0]))
def test_one_that_takes_little_goes_to_the_end_where_nobody_waits_for_it(slow: int, takes: float) -> None:
    node = f"n{slow:02}"
    world = World(takes={node: takes})
    assert told(world.windows(20)) == [{node: round(takes / 10)}]
    assert world.below(node) == []
    assert {rate for name, rate in world.rates().items() if name != node} == {RATE}


def test_of_those_that_one_node_feeds_a_single_one_is_accused_as_it_may_be_that_node() -> None:
    world = World(gives={"n05": 100.0})
    assert told(world.windows(20)) == [{"n06": 10}]
    assert world.below("n06") == []


@pytest.mark.parametrize(("way_in", "moved"), [(500.0, []), (300.0, [{"n10": 30}])])
def test_behind_a_crowded_way_into_a_rack_one_moves_at_most(
    way_in: float, moved: list[dict[str, int]]
) -> None:
    assert told(World(way_in={"r1": way_in}).windows(20))[:1] == moved


def test_the_next_one_is_accused_too_when_the_first_takes_as_little_from_another() -> None:
    world = World(takes={"n03": 100.0}, size=40)
    assert told(world.windows(10)) == [{"n03": 10}]
    world.takes["n04"] = 100.0
    assert told(world.windows(10)) == [{"n04": 10}]


def test_one_at_half_the_rate_is_left_where_it_is() -> None:
    assert told(World(takes={"n03": 500.0}).windows(20)) == []


def test_no_more_than_a_twentieth_is_accused_at_a_time() -> None:
    world = World(takes={"n03": 100.0, "n05": 200.0, "n07": 300.0})
    assert told(world.windows(20)) == [{"n03": 10}]


def test_one_that_is_quick_again_has_its_place_among_the_others() -> None:
    world = World(takes={"n05": 100.0})
    world.windows(4)
    world.takes.clear()
    assert told(world.windows(10)) == [{"n05": 100}]
    assert world.watch.accused == {}


@given(st.integers(0, 250))
def test_where_nobody_is_slow_nobody_moves(jitter: int) -> None:
    assert told(World(jitter=jitter).windows(20)) == []


def test_the_first_of_all_has_nobody_to_be_compared_with() -> None:
    assert told(World(takes={"n00": 100.0}).windows(20)) == []


def test_who_feeds_two_shares_what_it_has_so_nobody_in_a_tree_is_judged() -> None:
    assert told(World(takes={"n05": 100.0}, strategy="binary_tree").windows(20)) == []
