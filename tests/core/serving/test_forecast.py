"""What the last week lets expect, and what the plan of replicas makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.serving.autoscaling import Reading, ScalingPolicy, scale
from platform_core.serving.forecast import DAYS, MOST_GROWTH, Past, expected, windows
from platform_core.units import DAY_MS

DEMAND = st.lists(st.floats(0, 500), max_size=30)


def test_the_rise_of_each_morning_is_expected_before_it_comes() -> None:
    days = [Past([2.0] * 6, [2.0, 20.0, 20.0, 20.0])] * 5
    assert expected([2.0] * 6, days) == pytest.approx(20.0)
    assert expected([1.0] * 6, days) == pytest.approx(10.0), "half of the usual day so far"


def test_one_odd_day_and_a_short_burst_change_nothing() -> None:
    usual, odd = Past([2.0], [3.0] * 6), Past([2.0], [300.0] * 6)
    assert expected([2.0], [usual, usual, odd, usual, usual]) == pytest.approx(3.0)
    assert expected([2.0], [Past([2.0], [0.0, 9.0, 0.0])] * 3) == pytest.approx(3.0)


def test_too_few_days_expect_nothing() -> None:
    assert expected([2.0], [Past([2.0], [20.0])] * 2) == 0.0
    assert expected([2.0], [Past([0.0], [20.0])] * DAYS) == 0.0, "nobody asked then"
    assert expected([], [Past([2.0], [20.0])] * DAYS) == 0.0, "nobody asks today"


@given(DEMAND, st.lists(st.builds(Past, DEMAND, DEMAND), max_size=DAYS))
def test_a_forecast_is_bounded_by_what_was_seen(today: list[float], days: list[Past]) -> None:
    most = max((value for day in days for value in day.ahead), default=0.0)
    assert 0.0 <= expected(today, days) <= most * MOST_GROWTH + 1e-9


def test_the_windows_are_those_of_seven_days() -> None:
    spans = windows(10 * DAY_MS)
    assert len(spans) == DAYS
    assert all(start < 10 * DAY_MS - day * DAY_MS < end for day, (start, end) in enumerate(spans, 1))


@given(st.floats(0, 200), st.integers(0, 12), st.integers(0, 3), st.integers(1, 9))
def test_what_is_expected_only_adds_replicas_within_the_limits(
    demand: float, current: int, low: int, more: int
) -> None:
    policy = ScalingPolicy(minimum=low, maximum=low + more)
    readings = [Reading(at, 4.0, 10) for at in range(590_000, 600_001, 1_000)]
    without, informed = (scale(policy, readings, current, 600_000, known) for known in (0.0, demand))
    assert without.replicas <= informed.replicas <= low + more


def test_little_that_is_expected_lets_an_endpoint_sleep() -> None:
    policy = ScalingPolicy(minimum=0, maximum=4, target_concurrency=8)
    assert scale(policy, [], 0, 600_000, 3.0).replicas == 0
    woken = scale(policy, [], 0, 600_000, 9.0)
    assert woken.replicas == 2
    assert "9.0 requests at once that the last week lets expect" in woken.reason
