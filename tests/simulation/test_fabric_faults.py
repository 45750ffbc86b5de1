"""Whatever happens to the workers, those that are there in the end have everything, and the store gave little more
than one copy."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.estimate import Conditions
from platform_core.distribution.planning.forest import STORE
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.planning.strategies import grow
from platform_core.simulation.fabric.transfer import Fabric, Failure, Outcome, Scenario

PIECE, RATE = 16 << 20, 1_250_000_000
NEVER = 10**9


def places_in(racks: int, each: int) -> tuple[Place, ...]:
    return tuple(Place(f"n{r:02}-{n:02}", f"r{r:02}") for r in range(racks) for n in range(each))


def run(
    places: tuple[Place, ...], failures=(), slow=(), *, pieces: int = 3000, mend_ms: int = 2000, percent: int = 50,
    weak=(),
) -> Outcome:  # fmt: skip
    forest = mesh.plan(places)
    conditions = Conditions(pieces * PIECE, PIECE, RATE, RATE)
    scenario = Scenario(
        places, conditions, dict.fromkeys(slow, percent), tuple(failures), mend_ms=mend_ms, step_ticks=2,
        weak=dict.fromkeys(weak, 10),
    )  # fmt: skip
    return Fabric(scenario, forest).run()


CLUSTERS = st.builds(places_in, st.integers(1, 5), st.integers(1, 8))


@st.composite
def troubles(draw):
    """Half of the workers at most fail, at any time; one of them at least is never touched."""
    places = draw(CLUSTERS)
    names = [place.node for place in places]
    failing = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names) // 2))
    slow = draw(st.sets(st.sampled_from(names), max_size=len(names) // 3))
    failures = [
        Failure(
            node, at := draw(st.integers(0, 60_000)), draw(st.sampled_from([None, at + 500, at + 20_000]))
        )
        for node in failing
    ]
    return places, failures, slow


def test_a_chain_does_not_wait_for_one_that_takes_a_quarter() -> None:
    places = places_in(4, 25)
    node, pieces = places[50].node, 6000
    healthy = [at for name, at in along_a_chain(places, {node: 25}, pieces).items() if name != node]
    assert max(healthy) <= 1.1 * max(along_a_chain(places, {}, pieces).values())


def test_in_a_chain_where_nobody_is_slow_nobody_moves() -> None:
    places = places_in(4, 25)
    told = along_a_chain(places, {places[50].node: 100}, 1500)
    assert told == along_a_chain(places, {}, 1500)


def along_a_chain(places: tuple[Place, ...], slow: Mapping[str, int], pieces: int) -> Mapping[str, int]:
    forest = grow("chain", places)
    conditions = Conditions(pieces * 4 * PIECE, 4 * PIECE, RATE, RATE)
    outcome = Fabric(Scenario(places, conditions, slow), forest).run()
    assert outcome.store_copies <= 1.02
    assert bool(outcome.mended) == any(percent < 100 for percent in slow.values())
    return outcome.finished_ms


@settings(max_examples=25)
@given(troubles(), st.sampled_from([2_000, NEVER]))
def test_all_that_are_there_in_the_end_have_everything_with_a_coordinator_or_without(
    trouble, mend_ms
) -> None:
    places, failures, slow = trouble
    outcome = run(places, failures, slow, mend_ms=mend_ms)
    for_good = {failure.node for failure in failures if failure.back_ms is None}
    assert {place.node for place in places} - for_good <= set(outcome.finished_ms)


def test_one_that_comes_back_to_two_dead_parents_asks_its_other_neighbours() -> None:
    """In the lane in which it knew those two alone nothing is asked of anybody at first: that stands still as well."""
    failures = [Failure("n03-01", 2_000, 22_000), Failure("n00-00", 3_000), Failure("n03-00", 8_605)]
    outcome = run(places_in(5, 4), failures, mend_ms=NEVER)
    assert "n03-01" in outcome.finished_ms
    assert outcome.store_copies <= 1.01


def test_one_failure_costs_the_others_a_moment_and_nothing_is_fetched_twice() -> None:
    places = places_in(8, 25)
    undisturbed = max(run(places).finished_ms.values())
    inner = "n00-01"
    outcome = run(places, [Failure(inner, 15_000)])
    assert inner not in outcome.finished_ms
    assert max(outcome.finished_ms.values()) <= undisturbed + 1_500
    assert outcome.store_copies <= 1.01


def test_one_that_comes_back_fetches_only_what_it_lacks() -> None:
    places = places_in(8, 25)
    undisturbed = max(run(places).finished_ms.values())
    outcome = run(places, [Failure("n03-07", 15_000, 25_000)])
    assert outcome.finished_ms["n03-07"] <= undisturbed + 10_000 + 3_000
    others = max(at for node, at in outcome.finished_ms.items() if node != "n03-07")
    assert others <= undisturbed + 3_000


@pytest.mark.parametrize("away_ms", [3_000, 20_000])
def test_whoever_is_away_for_a_moment_that_no_coordinator_sees_holds_nobody_up(away_ms: int) -> None:
    """Roots too: each of 16 nodes in turn."""
    places = places_in(1, 16)
    undisturbed = max(run(places, pieces=6000).finished_ms.values())
    for node in (place.node for place in places):
        outcome = run(places, [Failure(node, 30_000, 30_000 + away_ms)], pieces=6000, mend_ms=NEVER)
        assert max(at for name, at in outcome.finished_ms.items() if name != node) <= undisturbed + 1_500
        assert outcome.store_copies <= 1.02


def test_without_a_coordinator_neighbours_help_themselves() -> None:
    places = places_in(8, 25)
    undisturbed = max(run(places).finished_ms.values())
    outcome = run(places, [Failure("n00-01", 15_000), Failure("n05-12", 20_000)], mend_ms=NEVER)
    assert max(outcome.finished_ms.values()) <= undisturbed * 1.1
    assert outcome.store_copies <= 1.05


def test_the_pullers_death_hands_the_pull_to_one_other() -> None:
    places = places_in(8, 25)
    pullers = {seat.node for seat in mesh.plan(places).seats if STORE in seat.parents}
    assert len(pullers) > 1  # no single node is the seed
    outcome = run(places, [Failure(min(pullers), 15_000)])
    assert len(outcome.finished_ms) == len(places) - 1
    assert outcome.store_copies <= 1.02


def test_nobody_waits_for_slow_nodes_and_they_are_not_slower_than_they_must_be() -> None:
    places = places_in(8, 25)
    slow = {place.node for number, place in enumerate(places) if number % 20 == 7}
    undisturbed = max(run(places, pieces=12_000).finished_ms.values())
    outcome = run(places, slow=slow, pieces=12_000)
    healthy = max(at for node, at in outcome.finished_ms.items() if node not in slow)
    assert healthy <= undisturbed * 1.05
    assert max(outcome.finished_ms.values()) <= 2 * undisturbed * 1.05
    assert outcome.store_copies <= 1.02


def test_nobody_waits_long_for_nodes_that_send_a_tenth_of_what_they_take() -> None:
    """Ten times as long, before it was known who they are."""
    places = places_in(8, 25)
    weak = {place.node for number, place in enumerate(places) if number % 20 == 7}
    undisturbed = max(run(places, pieces=12_000).finished_ms.values())
    outcome = run(places, weak=weak, pieces=12_000)
    assert max(outcome.finished_ms.values()) <= 2 * undisturbed
    assert outcome.store_copies <= 1.02


def test_nobody_waits_long_for_one_that_sends_a_tenth_where_all_ends_before_it_is_known() -> None:
    """Eight times as long, when its followers stayed to the end."""
    places = places_in(1, 8)
    undisturbed = max(run(places, pieces=600).finished_ms.values())
    outcome = run(places, weak={places[1].node}, pieces=600)
    assert outcome.mended == 0
    assert max(outcome.finished_ms.values()) <= 2 * undisturbed
    assert outcome.store_copies == 1


def test_without_a_coordinator_nobody_stays_with_a_slow_one_to_the_last_byte() -> None:
    """Ten times as long, when they did."""
    places, lame = places_in(1, 8), "n00-01"
    undisturbed = max(run(places, pieces=600).finished_ms.values())
    outcome = run(places, slow={lame}, percent=10, pieces=600, mend_ms=NEVER)
    others = [at for node, at in outcome.finished_ms.items() if node != lame]
    assert max(others) <= 2.5 * undisturbed
    assert outcome.store_copies == 1
