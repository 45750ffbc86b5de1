"""The simulated fabric against what can be computed exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning import bounds, mesh
from platform_core.distribution.planning.estimate import STRATEGIES, Conditions, estimate, estimate_mesh
from platform_core.distribution.planning.forest import STORE, crossings
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.planning.strategies import grow
from platform_core.simulation.fabric.rounds import hypercube
from platform_core.simulation.fabric.transfer import Fabric, Outcome, Scenario

PIECE = RATE = 1000  # so that a piece takes a second
PIECES = st.integers(1, 40)
WORKERS = st.integers(1, 30)


def places_of(workers: int, racks: int = 1) -> tuple[Place, ...]:
    return tuple(Place(f"n{n:03}", f"r{n * racks // workers:02}") for n in range(workers))


def conditions(pieces: int, uplink: int = 0) -> Conditions:
    return Conditions(pieces * PIECE, PIECE, RATE, RATE, uplink)


def last_second(outcome: Outcome) -> int:
    return max(outcome.finished_ms.values()) // 1000


def along(strategy: str, places: tuple[Place, ...], pieces: int) -> Outcome:
    forest = grow(strategy, places)
    return Fabric(Scenario(places, conditions(pieces)), forest).run()


def through_the_mesh(places: tuple[Place, ...], pieces: int, lanes: int = 4, uplink: int = 0) -> Outcome:
    forest = mesh.plan(places, lanes)
    return Fabric(Scenario(places, conditions(pieces, uplink)), forest).run()


@given(PIECES, st.integers(1, 6))
def test_a_hypercube_attains_the_bound_where_source_and_workers_are_a_power_of_two(
    pieces: int, dimensions: int
) -> None:
    assert hypercube(pieces, dimensions) == bounds.rounds(pieces, 2**dimensions - 1)


@given(PIECES, WORKERS)
def test_a_chain_takes_a_round_for_each_piece_and_each_further_worker(pieces: int, workers: int) -> None:
    places = places_of(workers)
    outcome = along("chain", places, pieces)
    assert last_second(outcome) == pieces + workers - 1
    assert outcome.store_copies == pytest.approx(1)


@given(PIECES, st.integers(1, 12))
def test_one_after_the_other_costs_the_store_every_copy(pieces: int, workers: int) -> None:
    places = places_of(workers)
    outcome = along("sequential", places, pieces)
    assert last_second(outcome) == pieces * workers
    assert outcome.store_copies == pytest.approx(workers)


@given(PIECES, WORKERS)
def test_a_tree_is_never_quicker_than_its_estimate_by_more_than_a_hop_s_turn(
    pieces: int, workers: int
) -> None:
    places = places_of(workers)
    links = STRATEGIES["binary_tree"](places)
    exact = estimate("binary_tree", links, places, conditions(pieces)).time_ms // 1000
    assert abs(last_second(along("binary_tree", places, pieces)) - exact) <= workers.bit_length()


@given(PIECES, WORKERS, st.integers(1, 6), st.integers(1, 5))
def test_a_mesh_is_never_quicker_than_the_bound_nor_slower_than_its_estimate(
    pieces: int, workers: int, lanes: int, racks: int
) -> None:
    places = places_of(workers, min(racks, workers))
    outcome = through_the_mesh(places, pieces, lanes)
    forest = mesh.plan(places, lanes)
    assert last_second(outcome) >= bounds.rounds(pieces, workers)
    # Lanes that have less than their share of the pieces end one turn early, others one turn late.
    assert last_second(outcome) <= estimate_mesh(forest, places, conditions(pieces)).time_ms // 1000 + lanes
    assert outcome.store_copies == pytest.approx(1)
    if pieces % lanes == 0:
        assert outcome.cross_rack_copies == pytest.approx(crossings(forest))


@given(PIECES, WORKERS)
def test_the_mesh_of_one_lane_is_a_chain(pieces: int, workers: int) -> None:
    assert last_second(through_the_mesh(places_of(workers), pieces, lanes=1)) == pieces + workers - 1


@pytest.mark.parametrize("racks", [1, 4])
def test_a_thin_uplink_sets_the_pace_and_is_kept_busy(racks: int) -> None:
    places = places_of(40, racks)
    outcome = through_the_mesh(places, 1000, uplink=RATE // 2)
    assert 2000 <= last_second(outcome) <= 2000 * 1.03


def test_racks_are_entered_once_by_one_who_knows_them() -> None:
    places = places_of(100, racks=10)
    aware = through_the_mesh(places, 400)
    blind = mesh.plan([Place(place.node[::-1]) for place in places])
    racks = {place.node[::-1]: place.rack for place in places}
    crossed = (
        sum(p != STORE and racks[p] != racks[s.node] for s in blind.seats for p in s.parents) / blind.lanes
    )
    assert aware.cross_rack_copies == pytest.approx(9)
    assert aware.cross_rack_copies <= 0.2 * crossed
