from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.series import smooth

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
