"""Who is slow, and who only hangs below somebody slow; paces change seldom."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.pace import Offer, Port, Seen, Watch, judge, look, ports

RACKS: Mapping[str, str] = {}
LANES = 4


def seen(at_ms: int, received: float, left: float = 0, *, source: str = "mother", lanes: int = LANES) -> Seen:
    return Seen(at_ms, received, (Offer(source, left),) * lanes)


def usual(at_ms: int, count: int = 9) -> dict[str, Seen]:
    return {f"n{number}": seen(at_ms, at_ms) for number in range(count)}


def windows(count: int, lame: Mapping[int, tuple[float, float]]) -> list[dict[str, int]]:
    """Nine nodes that take one unit each millisecond, and a tenth: what it has received and leaves, by window."""
    watch, paces, told = Watch(), dict[str, int](), []
    for number in range(count):
        at = 4000 * number
        received, left = lame[number]
        watch, changed = look(watch, usual(at) | {"lame": seen(at, received, left)}, RACKS, paces)
        paces |= changed
        told.append(changed)
    return told


def test_a_node_is_slow_when_it_leaves_what_is_offered_in_two_windows_running() -> None:
    tenth = {number: (400.0 * number, 900.0 * number) for number in range(5)}
    assert windows(5, tenth) == [{}, {}, {"lame": 10}, {}, {}]


def test_one_bad_window_is_forgiven() -> None:
    assert windows(4, {0: (0, 0), 1: (400, 900), 2: (4400, 900), 3: (8400, 900)}) == [{}] * 4


def test_a_link_that_recovers_is_as_usual_again_after_three_windows() -> None:
    recovers = {0: (0, 0), 1: (400, 900), 2: (800, 1800)} | {
        n: (800.0 + 4000 * (n - 2), 0) for n in range(3, 7)
    }
    assert windows(7, recovers) == [{}, {}, {"lame": 10}, {}, {}, {"lame": 100}, {}]


def test_who_gets_little_because_its_source_is_slow_is_not_accused() -> None:
    below = {number: (400.0 * number, 0.0) for number in range(4)}
    assert windows(4, below) == [{}] * 4


def test_followers_of_an_overloaded_source_are_late_together() -> None:
    early = usual(0) | {f"late{n}": seen(0, 0, source="overloaded") for n in range(3)}
    later = usual(4000) | {f"late{n}": seen(4000, 400, 3600, source="overloaded") for n in range(3)}
    assert ports(early, later, RACKS)["late0"] == Port(100, LANES, 0)


def test_a_crowded_uplink_accuses_nobody_who_keeps_up_within_its_rack() -> None:
    racks = {"me": "r1", "near": "r1", "far": "r2"}
    early = {"me": Seen(0, 0, (Offer("near", 0), Offer("far", 0)))}
    later = {"me": Seen(4000, 400, (Offer("near", 0), Offer("far", 3600)))}
    assert ports(early, later, racks)["me"] == Port(100, 0, 0)


def test_words_of_different_age_are_no_falling_behind() -> None:
    early, later = usual(0) | {"me": seen(0, 0)}, usual(4000) | {"me": seen(4000, 4000, 100)}
    assert ports(early, later, RACKS)["me"].fell_behind == LANES
    assert ports(early, later, RACKS, jitter_ms=400)["me"].fell_behind == 0


def test_nobody_is_judged_by_slow_ones_alone_nor_without_news() -> None:
    assert judge({"slow": Port(10, 4, 4)}, {"slow": 10}, {}) == ({}, {})
    assert judge({}, {}, {}) == ({}, {})
    assert ports({"me": seen(5, 5)}, {"me": seen(5, 5), "new": seen(5, 5)}, RACKS) == {}


@given(st.integers(1, 100), st.lists(st.integers(-4, 4), min_size=12, max_size=12))
def test_a_steady_rate_is_told_at_most_once_however_it_wavers(percent: int, noise: list[int]) -> None:
    """Between the steps too: one pace, and it stays."""
    paces, doubts, changes = dict[str, int](), dict[str, int](), 0
    for waver in noise:
        seen_now = {f"n{n}": Port(1000, 0, 0) for n in range(5)}
        seen_now["me"] = Port(max(1, percent * 10 + waver * 5), 4, 4)
        changed, doubts = judge(seen_now, paces, doubts)
        paces |= changed
        changes += len(changed)
    assert changes <= 2
