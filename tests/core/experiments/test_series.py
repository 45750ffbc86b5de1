from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.series import KINDS, gaussian, moving_average, smooth, smoothed

FINITE = st.floats(-1e6, 1e6)


def test_no_weight_changes_nothing():
    assert smooth([1.0, 5.0, 2.0], 0.0) == [1.0, 5.0, 2.0]


@given(FINITE, st.integers(1, 50), st.floats(0, 0.99))
def test_a_flat_curve_stays_flat_from_its_first_point(value: float, length: int, weight: float):
    assert smooth([value] * length, weight) == pytest.approx([value] * length)


@given(st.lists(FINITE, max_size=50), st.floats(0, 0.999))
def test_a_smoothed_curve_stays_within_what_it_has_seen(values: list[float], weight: float):
    for index, value in enumerate(smooth(values, weight)):
        seen = values[: index + 1]
        slack = 1e-9 * max(map(abs, seen)) + 1e-9
        assert min(seen) - slack <= value <= max(seen) + slack


@given(FINITE, st.lists(st.integers(1, 9), min_size=1, max_size=20), st.floats(0, 0.99))
def test_a_mean_of_many_points_counts_as_all_of_them(value: float, counts: list[int], weight: float):
    means = [value * number for number in range(1, len(counts) + 1)]
    reported = [mean for mean, count in zip(means, counts, strict=True) for _ in range(count)]
    places = [sum(counts[: number + 1]) - 1 for number in range(len(counts))]
    every_point = smooth(reported, weight)
    assert smooth(means, weight, counts) == pytest.approx([every_point[place] for place in places])


def test_a_gap_passes_through_and_is_forgotten():
    smoothed = smooth([2.0, math.nan, 2.0], 0.9)
    assert smoothed[0] == pytest.approx(2.0)
    assert math.isnan(smoothed[1])
    assert smoothed[2] == pytest.approx(2.0)


@pytest.mark.parametrize("weight", [-0.1, 1.0])
def test_a_weight_that_forgets_or_keeps_everything_is_refused(weight: float):
    with pytest.raises(ValueError, match="at least 0 and less than 1"):
        smooth([1.0], weight)


POINTS = st.lists(st.tuples(st.floats(0, 1e4), FINITE), min_size=1, max_size=40)


@given(POINTS, st.sampled_from(KINDS), st.floats(0, 0.99))
def test_every_kind_keeps_its_points_and_stays_within_the_values(
    points: list[tuple[float, float]], kind: str, strength: float
):
    x = sorted(place for place, _ in points)
    values = [value for _, value in points]
    result = smoothed(kind, strength, x, values, span=x[-1] - x[0])
    slack = 1e-9 * max(map(abs, values)) + 1e-9
    assert len(result) == len(values)
    assert all(min(values) - slack <= value <= max(values) + slack for value in result)
    assert strength or result == values


@pytest.mark.parametrize("kind", ["gaussian", "average"])
def test_a_symmetric_kind_keeps_a_straight_line_away_from_its_ends(kind: str):
    x = [float(step) for step in range(101)]
    result = smoothed(kind, 0.5, x, [3.0 * step for step in x], span=100.0)
    assert result[40:61] == pytest.approx([3.0 * step for step in x[40:61]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_nan_stays_where_it_was_and_does_not_spread(kind: str):
    result = smoothed(kind, 0.5, [0.0, 1.0, 2.0], [1.0, math.nan, 1.0], span=20.0)
    assert math.isnan(result[1])
    assert (result[0], result[2]) == pytest.approx((1.0, 1.0))


def test_a_moving_average_counts_reported_points():
    assert moving_average([0.0, 1.0], [1.0, 4.0], 2.0, [2, 1]) == pytest.approx([2.0, 2.0])


def test_a_gaussian_looks_no_further_than_three_sigma():
    assert gaussian([0.0, 3.1], [1.0, 100.0], 1.0) == [1.0, 100.0]
