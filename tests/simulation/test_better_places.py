"""Jobs that are slower on some places, played to the end."""

from platform_core.cluster.snapshot import PlaceStep
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.workload import TraceJob
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.core.scheduling.situations import node

STEPS = (PlaceStep(2, 1, 1_000_000), PlaceStep(2, 2, 2_000_000))
NODES = [node("a", rack="r1"), node("b", rack="r1"), node("c", rack="r2")]


def gang_ends_ms(first_takes_ms: int, place_wait_ms: int) -> int:
    """A job holds a node of the first rack; a gang of two nodes finds the other one and the node of the second rack."""
    first = TraceJob("first", 0, 8, first_takes_ms, first_takes_ms)
    gang = TraceJob("gang", 1, 16, 10 * HOUR_MS, 20 * HOUR_MS, place_steps=STEPS)
    policy = Policy("first_come", reservations=2, place_wait_ms=place_wait_ms)
    ledger = Cluster(NODES, [first, gang], policy).run()
    return next(outcome.ended_ms for outcome in ledger.outcomes if outcome.job.id == "gang")


def test_a_gang_in_two_racks_works_at_their_pace() -> None:
    assert gang_ends_ms(30 * MINUTE_MS, 0) == 1 + 20 * HOUR_MS


def test_it_ends_earlier_when_it_waits_for_its_rack() -> None:
    assert gang_ends_ms(30 * MINUTE_MS, 6 * HOUR_MS) == 30 * MINUTE_MS + 10 * HOUR_MS


def test_it_does_not_wait_longer_than_the_policy_lets_it() -> None:
    assert gang_ends_ms(8 * HOUR_MS, 6 * HOUR_MS) == 1 + 20 * HOUR_MS
