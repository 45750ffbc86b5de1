"""A node and the platform with clocks of their own and a network that delays and loses in each direction."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_core.cluster import leases
from platform_core.cluster.leases import (
    DRIFT_PER_MILLE,
    NO_LEASE,
    Lease,
    Sighting,
    acknowledge,
    covers,
    has_ended,
    lease_ms,
    quiet_ms,
    sight,
    time_to_kill_ms,
    work_ms,
)

LOST_MS = 120_000
SWEEP_MS = 2_000


@dataclass(frozen=True)
class Beat:
    """A heartbeat: what passes since the one before (an agent that is dead or frozen sends none), then on its way."""

    gap_ms: int
    up_ms: (
        int | None
    )  # until a gateway, which may be frozen or restarting, has recorded it; None: it never does
    down_ms: int | None  # until the agent has read its acknowledgement


@dataclass(frozen=True)
class Sweep:
    gap_ms: int
    read_ms: int  # until it has read, and until it has decided: it may be frozen in between
    decide_ms: int


@dataclass(frozen=True)
class World:
    beats: tuple[Beat, ...]
    sweeps: tuple[Sweep, ...]
    node_drift: int  # per mille
    platform_drift: int
    kill_ms: int  # from the end of the lease until nothing is left alive, on a busy host

    def by_node(self, at_ms: int) -> int:
        return at_ms * (1000 + self.node_drift) // 1000 + 5_000_000

    def by_platform(self, at_ms: int) -> int:
        return at_ms * (1000 + self.platform_drift) // 1000

    def recorded(self) -> list[int]:
        """When each heartbeat that arrived was recorded, in that order."""
        return sorted(sent + beat.up_ms for sent, beat in self._sent() if beat.up_ms is not None)

    def _sent(self) -> list[tuple[int, Beat]]:
        at_ms, sent = 0, []
        for beat in self.beats:
            at_ms += beat.gap_ms
            sent.append((at_ms, beat))
        return sent

    def rank_ends_ms(self) -> int:
        """When what was ordered at the start is dead."""
        lease = acknowledge(NO_LEASE, self.by_node(0), self.by_node(0), lease_ms(LOST_MS))
        ordered_ms = self.by_node(0)
        heard = sorted(
            (sent + beat.up_ms + beat.down_ms, sent)
            for sent, beat in self._sent()
            if beat.up_ms is not None and beat.down_ms is not None
        )
        for arrives_ms, sent_ms in heard:
            if not covers(lease, ordered_ms, self.by_node(arrives_ms)):
                break
            lease = acknowledge(lease, self.by_node(sent_ms), self.by_node(arrives_ms), lease_ms(LOST_MS))
        end = lease.sent_ms + lease.length_ms - 5_000_000
        return end * 1000 // (1000 + self.node_drift) + 1 + self.kill_ms

    def starts_elsewhere_ms(self) -> int | None:
        recorded = self.recorded()
        sighting: Sighting | None = sight(None, "0", LOST_MS, self.by_platform(0))
        at_ms = 0
        for sweep in self.sweeps:
            at_ms += sweep.gap_ms
            before_ms = self.by_platform(at_ms)
            token = str(sum(1 for moment in recorded if moment <= at_ms + sweep.read_ms))
            at_ms += sweep.read_ms
            sighting = sight(sighting, token, LOST_MS, self.by_platform(at_ms))
            at_ms += sweep.decide_ms
            if has_ended(sighting, before_ms) and quiet_ms(sighting, before_ms) >= LOST_MS:
                return at_ms
        return None


DRIFTS = st.integers(-DRIFT_PER_MILLE, DRIFT_PER_MILLE)
DELAYS = st.none() | st.integers(0, 200) | st.integers(0, 400_000)
BEATS = st.builds(Beat, st.just(3_000) | st.integers(1, 300_000), DELAYS, DELAYS)
SWEEPS = st.builds(
    Sweep, st.integers(1, 20_000), st.integers(0, 200) | st.integers(0, 300_000), st.integers(0, 200_000)
)
WORLDS = st.builds(
    World,
    st.lists(BEATS, max_size=30).map(tuple),
    st.lists(SWEEPS, min_size=5, max_size=60).map(tuple),
    DRIFTS,
    DRIFTS,
    st.integers(0, time_to_kill_ms(LOST_MS)),
)
REGULAR = tuple(Sweep(SWEEP_MS, 5, 50) for _ in range(200))


@given(WORLDS)
@example(World((), REGULAR, -DRIFT_PER_MILLE, DRIFT_PER_MILLE, time_to_kill_ms(LOST_MS)))
@example(World((Beat(3_000, 10, None),) * 60, REGULAR, -10, 10, 20_000))  # acknowledgements are lost
@example(World((Beat(3_000, None, 10),) * 60, REGULAR, -10, 10, 20_000))  # heartbeats are lost
@example(World((Beat(100, 100, 80_000),), REGULAR, -10, 10, 20_000))  # a gateway that was frozen
@example(
    World((Beat(89_000, 40_000, 10),), (Sweep(1, 0, 0), Sweep(100_000, 0, 300_000)), 0, 0, 0)
)  # a frozen worker
@example(
    World((Beat(80_000, 10, 10),), (Sweep(79_000, 0, 50_000),), 0, 0, 0)
)  # one that read, froze and decided
@settings(max_examples=400, deadline=None)
def test_there_is_no_moment_at_which_a_rank_lives_twice(world: World) -> None:
    elsewhere_ms = world.starts_elsewhere_ms()
    assert elsewhere_ms is None or world.rank_ends_ms() <= elsewhere_ms


@given(st.integers(0, 40), DRIFTS, DRIFTS)
def test_what_ran_on_a_lost_node_starts_elsewhere_in_time(beats: int, node: int, platform: int) -> None:
    """Within the limit by the slowest clock, one round to see the last heartbeat and one to see the silence."""
    world = World((Beat(3_000, 10, 10),) * beats, REGULAR, node, platform, 0)
    last_ms = beats * 3_000 + 10
    elsewhere_ms = world.starts_elsewhere_ms()
    assert elsewhere_ms is not None
    slowest = 1000 - DRIFT_PER_MILLE
    assert elsewhere_ms - last_ms <= LOST_MS * 1000 // slowest + 2 * (SWEEP_MS + 55) + 1


@pytest.mark.parametrize("lost_ms", [3_000, 30_000, 120_000, 7_200_000])
def test_the_lease_ends_before_the_node_is_lost_by_the_worst_of_clocks(lost_ms: int) -> None:
    assert 0 < work_ms(lease_ms(lost_ms)) < lease_ms(lost_ms) < lost_ms
    assert time_to_kill_ms(lost_ms) >= lost_ms // 5


def test_a_restart_of_the_platform_of_a_minute_ends_nothing() -> None:
    assert work_ms(lease_ms(LOST_MS)) > 60_000 + 2 * 3_000


def test_an_acknowledgement_that_comes_too_late_begins_a_lease_anew() -> None:
    lease = Lease(sent_ms=1_000, since_ms=500, length_ms=10_000)
    again = acknowledge(lease, sent_ms=10_500, now_ms=11_000, length_ms=10_000)
    assert again == Lease(10_500, 11_000, 10_000)
    assert not covers(again, began_ms=10_999, now_ms=11_001)
    assert covers(again, began_ms=11_000, now_ms=11_001)


def test_acknowledgements_out_of_order_change_nothing() -> None:
    lease = Lease(sent_ms=5_000, since_ms=500, length_ms=10_000)
    assert acknowledge(lease, 4_000, 6_000, 99_000) == lease


def test_a_shorter_grant_does_not_end_an_earlier_one_sooner() -> None:
    before = leases.sight(None, "a", 120_000, 0)
    assert leases.sight(before, "b", 30_000, 1_000).ends_ms == 120_000
