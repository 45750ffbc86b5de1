"""Time for which an operator had stopped the platform is nobody's fault, and an outage after it is one again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.service_levels.planned_stops import (
    LEAST_MS,
    QUIET_MS,
    STARTUP_MS,
    Stop,
    is_quiet,
    outside,
    probed,
)
from platform_core.units import HOUR_MS, MINUTE_MS

TIMES = st.integers(0, 3 * HOUR_MS)


def after(stop: Stop, *probes: tuple[int, bool]) -> Stop:
    for at_ms, works in probes:
        stop = probed(stop, at_ms, works)
    return stop


def test_a_stop_lasts_until_a_probe_is_good() -> None:
    stop = after(Stop(0), (HOUR_MS, False), (HOUR_MS + 30_000, True))
    assert stop.over_ms == HOUR_MS + 30_000


def test_what_does_not_work_after_its_time_to_start_is_an_outage() -> None:
    stop = after(Stop(0), (HOUR_MS, False), (HOUR_MS + STARTUP_MS, False), (2 * HOUR_MS, False))
    assert stop.over_ms == HOUR_MS + STARTUP_MS


def test_a_good_probe_at_once_does_not_end_it() -> None:
    """The gateway that has just ended still counts as heard."""
    assert after(Stop(0), (1_000, True)).over_ms is None
    assert after(Stop(0), (1_000, True), (LEAST_MS, True)).over_ms == LEAST_MS


def test_a_part_that_stays_away_is_told_of_in_the_end() -> None:
    assert is_quiet(Stop(0), QUIET_MS - 1)
    assert not is_quiet(Stop(0), QUIET_MS)
    assert not is_quiet(Stop(0, 1, 2), MINUTE_MS)


def test_a_stop_excuses_whole_minutes() -> None:
    stop = Stop(5 * MINUTE_MS + 10, over_ms=7 * MINUTE_MS + 10)
    assert outside(0, 10 * MINUTE_MS, [stop]) == [(0, 5 * MINUTE_MS), (8 * MINUTE_MS, 10 * MINUTE_MS)]
    assert outside(0, 10 * MINUTE_MS, [Stop(5 * MINUTE_MS)]) == [(0, 5 * MINUTE_MS)]


@given(TIMES, TIMES, st.lists(st.tuples(TIMES, TIMES), max_size=5))
def test_the_parts_lie_in_the_period_in_order_and_in_no_stop(
    one: int, other: int, spans: list[tuple[int, int]]
) -> None:
    begin, end = min(one, other), max(one, other)
    stops = [Stop(min(span), over_ms=max(span)) for span in spans]
    parts = outside(begin, end, stops)
    edges = [edge for part in parts for edge in part]
    assert edges == sorted(edges)
    assert all(begin <= first < last <= end for first, last in parts)
    for stop in stops:
        assert stop.over_ms is not None
        assert all(last <= stop.at_ms or first > stop.over_ms for first, last in parts)
