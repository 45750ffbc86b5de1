"""Whatever happens to the workers, those that are there in the end have everything, and the store gave little more
than one copy."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.distribution.estimate import Conditions
from platform_core.distribution.forest import node_plans
from platform_core.distribution.planners import mesh
from platform_core.distribution.planners.routes import Place
from platform_core.simulation.fabric import Fabric, Failure, Outcome, Plans, Scenario

PIECE, RATE = 16 << 20, 1_250_000_000
NEVER = 10**9


def places_in(racks: int, each: int) -> tuple[Place, ...]:
    return tuple(Place(f"n{r:02}-{n:02}", f"r{r:02}") for r in range(racks) for n in range(each))


def run(
    places: tuple[Place, ...], failures=(), slow=(), *, pieces: int = 3000, mend_ms: int = 2000, percent: int = 50
) -> Outcome:  # fmt: skip
    forest = mesh.plan(places)
    conditions = Conditions(pieces * PIECE, PIECE, RATE, RATE)
    scenario = Scenario(
        places, conditions, dict.fromkeys(slow, percent), tuple(failures), mend_ms=mend_ms, step_ticks=2
    )
    return Fabric(scenario, Plans(node_plans(forest), forest)).run()


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


@settings(max_examples=40, deadline=None)
@given(troubles(), st.sampled_from([2_000, NEVER]))
def test_all_that_are_there_in_the_end_have_everything_with_a_coordinator_or_without(
    trouble, mend_ms
) -> None:
    places, failures, slow = trouble
    outcome = run(places, failures, slow, mend_ms=mend_ms)
    for_good = {failure.node for failure in failures if failure.back_ms is None}
    assert {place.node for place in places} - for_good <= set(outcome.finished_ms)
