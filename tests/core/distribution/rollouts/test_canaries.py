"""Which nodes go first, and what a rollout may be asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning.routes import Place
from platform_core.distribution.rollouts.canaries import RolloutPlan, canary_count, spread
from platform_core.errors import TrainmasterError


def test_canaries_are_spread_over_racks_and_blocks() -> None:
    places = [Place(f"n{i:02}", f"rack-{i // 3}", f"block-{i // 6}") for i in range(12)]
    assert spread(places)[:4] == ["n00", "n06", "n03", "n09"]
    assert spread(reversed(places)) == spread(places)
    assert sorted(spread(places)) == sorted(place.node for place in places)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_the_first_canaries_never_share_a_rack_while_another_has_none(where: list[tuple[int, int]]) -> None:
    places = [Place(f"n{i:02}", f"r{rack}", f"b{block}") for i, (rack, block) in enumerate(where)]
    of = {place.node: (place.block, place.rack) for place in places}
    racks = len(set(of.values()))
    assert len({of[node] for node in spread(places)[:racks]}) == racks


@pytest.mark.parametrize(
    ("wanted", "nodes", "count"), [("1", 3, 1), ("10%", 3, 1), ("50 %", 10, 5), ("0", 3, 0)]
)
def test_canaries_by_number_and_by_share(wanted: str, nodes: int, count: int) -> None:
    assert canary_count(wanted, nodes) == count


@pytest.mark.parametrize("wanted", ["4", "101%", "-1", "some", "", "٣"])
def test_canaries_that_cannot_be_meant(wanted: str) -> None:
    with pytest.raises(TrainmasterError, match="canary is not valid"):
        canary_count(wanted, 3)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"health_check": "x"}, "are for canaries"),
        ({"hold_ms": None}, "are for canaries"),
        ({"canaries": 1, "hold_ms": -1}, "can be held"),
        ({"hook": "../../bin/sh"}, "no name of a command"),
        ({"hook": "reload; rm -rf /"}, "no name of a command"),
        ({"command_seconds": 0}, "must be 1 to 3600"),
        ({"check_every_ms": 20}, "it is 0.02; it must be 1 to"),
        ({"roll_back_after": 2}, "no health check that could fail"),
        ({"canaries": 1, "health_check": "x", "check_every_ms": 0, "roll_back_after": 2}, "say how often"),
    ],
)
def test_plans_that_cannot_be_meant(fields: dict[str, object], why: str) -> None:
    with pytest.raises(TrainmasterError, match=why):
        RolloutPlan(**fields)  # type: ignore[arg-type]
