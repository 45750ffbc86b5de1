from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning import pipelines
from platform_core.distribution.planning.bounds import Rates
from platform_core.distribution.planning.estimate import STRATEGIES, Conditions, choose, compare, estimate
from platform_core.distribution.planning.routes import Link, Place

GBPS_10 = 1_250_000_000
HUNDRED = tuple(Place(f"n{n:03}", f"r{n // 10}") for n in range(100))
ORIGINAL = Conditions(500 * 10**9, 10**9, GBPS_10, GBPS_10)


def by_hand(links: tuple[Link, ...], pieces: int) -> int:
    """The last arrival in piece times: every sender sends piece after piece to its successors in turn."""
    parents = {link.node: link.predecessors[0] if link.predecessors else "" for link in links}
    arrivals = {"": [0] * pieces}
    for link in links:
        sender = parents[link.node]
        if link.node in arrivals:
            continue
        successors = [other.node for other in links if parents[other.node] == sender]
        clock = 0
        for node in successors:
            arrivals[node] = []
        for held in arrivals[sender]:
            for node in successors:
                clock = max(clock, held) + 1
                arrivals[node].append(clock)
    return max(times[-1] for times in arrivals.values())


@given(st.sampled_from(sorted(STRATEGIES)), st.integers(1, 40), st.integers(1, 30), st.integers(1, 5))
def test_the_estimate_is_what_happens_when_nothing_fails(
    strategy: str, workers: int, pieces: int, racks: int
) -> None:
    places = tuple(Place(f"n{n:02}", f"r{n % racks}") for n in range(workers))
    links = STRATEGIES[strategy](places)
    seen = estimate(strategy, links, places, Conditions(pieces * 10, 10, 10, 10))
    assert seen.time_ms == by_hand(links, pieces) * 1000
    assert seen.bound_ms <= seen.time_ms


@given(st.integers(1, 60), st.integers(1, 12))
def test_pipelines_are_no_longer_than_allowed_and_estimated_as_they_run(workers: int, longest: int) -> None:
    places = tuple(Place(f"n{n:02}") for n in range(workers))
    links = pipelines.plan(places, longest)
    seen = estimate("pipelines", links, places, Conditions(70, 10, 10, 10))
    assert seen.time_ms == by_hand(links, 7) * 1000
    assert seen.most_sent_copies <= 2
    assert sum(not link.predecessors for link in links) == 1


@given(st.sampled_from(sorted(STRATEGIES)), st.integers(0, 50))
def test_every_plan_names_each_worker_once_and_only_those_before_it(strategy: str, workers: int) -> None:
    places = tuple(Place(f"n{n:02}", f"r{n % 3}") for n in range(workers))
    links = STRATEGIES[strategy](places)
    assert sorted(link.node for link in links) == sorted(place.node for place in places)
    for number, link in enumerate(links):
        assert link.position == number
        assert set(link.predecessors) <= {before.node for before in links[:number]}


def test_the_original_design_s_arithmetic() -> None:
    times = {each.strategy: each.time_ms for each in compare(HUNDRED, ORIGINAL)}
    assert times["sequential"] == 40_000_000  # 11 h
    assert times["chain"] == 479_200
    # It counted 2 (M + 7) rounds, 811 s; the root sends its first piece a little earlier than that.
    assert times["binary_tree"] == pytest.approx(811_000, rel=0.01)


def test_the_mesh_beats_what_the_original_design_could_do() -> None:
    best = compare(HUNDRED, ORIGINAL)[0]
    assert (best.strategy, best.store_copies, best.cross_rack_copies, best.most_sent_copies) == (
        "mesh",
        1,
        9,
        1,
    )
    assert best.most_uplink_copies == 1, "no rack's uplink carries more than one copy, either way"
    assert best.time_ms < 425_000
    assert choose(HUNDRED, ORIGINAL) == "mesh"


def test_auto_is_the_mesh_unless_another_is_clearly_quicker() -> None:
    four = tuple(Place(f"n{n}", "r0") for n in range(4))
    few_pieces, many, slow = 16 << 20, 2 << 30, 12_500_000
    assert choose(four, Conditions(many, 4 << 20, slow, slow)) == "mesh", (
        "some pieces more than a chain, of 512"
    )
    assert choose(four, Conditions(few_pieces, 4 << 20, GBPS_10, GBPS_10)) == "mesh", (
        "a second decides nothing"
    )
    thirty = tuple(Place(f"n{n}", "r0") for n in range(30))
    conditions = Conditions(few_pieces // 2, 4 << 20, slow, slow)
    best = compare(thirty, conditions)[0]
    assert best.strategy != "mesh"
    assert choose(thirty, conditions) == best.strategy
    assert choose((), conditions) == "mesh"


def test_a_chain_takes_one_copy_from_the_store_and_crosses_into_each_rack_once() -> None:
    seen = {each.strategy: each for each in compare(HUNDRED, ORIGINAL)}["chain"]
    assert (seen.store_copies, seen.cross_rack_copies, seen.most_sent_copies) == (1, 9, 1)
    assert seen.most_uplink_copies == 1
    assert seen.bound_ms >= 400_000


def test_each_link_s_load_is_predicted_as_it_follows_from_the_plan() -> None:
    """Racks of 10 nodes, 10 of them; the store stands outside."""
    seen = {each.strategy: each for each in compare(HUNDRED, ORIGINAL)}
    one_after_the_other, tree = seen["sequential"], seen["binary_tree"]
    assert (one_after_the_other.store_copies, one_after_the_other.most_sent_copies) == (100, 0)
    assert (one_after_the_other.cross_rack_copies, one_after_the_other.most_uplink_copies) == (0, 10)
    assert (tree.store_copies, tree.most_sent_copies, tree.most_uplink_copies) == (1, 2, 20)
    alone = compare((Place("n0", "r0"),), ORIGINAL)
    assert {each.most_uplink_copies for each in alone} == {1}


def test_with_small_pieces_a_thousand_are_near_the_bound() -> None:
    places = tuple(Place(f"n{n:04}", f"r{n // 25}") for n in range(1000))
    mesh, chain = compare(places, Conditions(500 * 10**9, 16 << 20, GBPS_10, GBPS_10))[:2]
    assert (mesh.strategy, chain.strategy) == ("mesh", "chain")
    assert mesh.ratio < 1.01
    assert chain.ratio < 1.04


def test_a_mesh_is_as_quick_as_the_uplinks_let_it_be() -> None:
    places = tuple(Place(f"n{n:02}", f"r{n // 10}") for n in range(40))
    conditions = Conditions(10**9, 10**5, 10**7, 10**7, uplink=5 * 10**6)
    seen = {each.strategy: each for each in compare(places, conditions)}["mesh"]
    assert seen.bound_ms <= seen.time_ms < seen.bound_ms * 1.02


def test_a_thin_uplink_slows_those_behind_it() -> None:
    places = (Place("a", "r1"), Place("b", "r2"))
    links = STRATEGIES["chain"](places)
    seen = estimate("chain", links, places, Conditions(100, 10, 10, 10, uplink=5))
    assert seen.time_ms == (1 + 2 + 9 * 2) * 1000
    assert seen.bound_ms >= 20_000


def test_a_short_file_for_very_many_nodes_is_better_in_a_tree() -> None:
    places = tuple(Place(f"n{n:04}") for n in range(2000))
    assert choose(places, Conditions(4 << 20, 4 << 20, GBPS_10 // 100, GBPS_10 // 100)) == "binary_tree"


def test_nobody_and_nothing_take_no_time() -> None:
    assert [each.time_ms for each in compare((), ORIGINAL)] == [0] * 5
    nothing = Conditions(0, 10, 10, 10)
    assert [each.time_ms for each in compare(HUNDRED, nothing)] == [0] * 5


CHAIN_OF_THREE = (Place("a"), Place("b"), Place("c"))


@pytest.mark.parametrize(
    ("capped", "rounds"),
    [
        ({}, 3 + 9),
        ({"c": Rates(up=10, down=5)}, 2 + 2 + 9 * 2),
        ({"b": Rates(up=5, down=10)}, 2 + 2 + 9 * 2),
        ({"a": Rates(up=10, down=5)}, 2 + 1 + 1 + 9 * 2),
        ({"c": Rates(up=1, down=10)}, 3 + 9),
    ],
    ids=[
        "none",
        "the last takes half",
        "the second gives half",
        "the first takes half",
        "the last has nobody behind it",
    ],
)
def test_a_node_with_a_cap_of_its_own_slows_itself_and_those_behind_it(
    capped: dict[str, Rates], rounds: int
) -> None:
    links = STRATEGIES["chain"](CHAIN_OF_THREE)
    seen = estimate("chain", links, CHAIN_OF_THREE, Conditions(100, 10, 10, 10, caps=capped))
    assert seen.time_ms == rounds * 1000
    assert seen.bound_ms <= seen.time_ms


@given(st.integers(2, 30), st.integers(1, 10), st.integers(1, 10))
def test_no_strategy_is_said_to_be_quicker_than_caps_allow(workers: int, takes: int, gives: int) -> None:
    places = tuple(Place(f"n{n:02}", f"r{n % 3}") for n in range(workers))
    conditions = Conditions(10**6, 10**3, 10**5, 10**5, caps={"n00": Rates(gives * 10**4, takes * 10**4)})
    for each in compare(places, conditions):
        assert each.time_ms >= each.bound_ms >= 10**6 * 1000 // (takes * 10**4)


def test_caps_on_what_all_send_make_the_mesh_longer_as_all_copies_must_come_from_somebody() -> None:
    places = tuple(Place(f"n{n:02}") for n in range(10))
    caps = {place.node: Rates(up=10**4, down=10**5) for place in places}
    seen = {
        each.strategy: each for each in compare(places, Conditions(10**6, 10**3, 10**5, 10**5, caps=caps))
    }
    assert seen["mesh"].time_ms == 10 * 10**6 * 1000 // (10**5 + 10 * 10**4)
