from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.series import downsample, smooth

FINITE = st.floats(-1e6, 1e6)
CURVES = st.lists(FINITE | st.sampled_from([math.nan, math.inf]), max_size=200).map(
    lambda values: [(float(step), value) for step, value in enumerate(values)]
)


@given(CURVES, st.integers(4, 50))
def test_ends_and_extremes_stay_and_no_point_is_invented(curve: list[tuple[float, float]], most: int):
    thin = downsample(curve, most)
    assert len(thin) <= most
    places = [curve.index(point) if point[1] == point[1] else int(point[0]) for point in thin]
    assert places == sorted(set(places))
    if len(curve) <= most:
        assert [step for step, _ in thin] == [step for step, _ in curve]
    if curve:
        assert thin[0][0] == curve[0][0]
        assert thin[-1][0] == curve[-1][0]
    finite = [value for _, value in curve if math.isfinite(value)]
    if finite:
        kept = [value for _, value in thin if math.isfinite(value)]
        assert (min(kept), max(kept)) == (min(finite), max(finite))


@given(st.integers(4, 100), st.integers(1, 400))
def test_a_long_curve_fills_what_it_may(most: int, longer: int):
    curve = [(float(step), (-1.0) ** step * step) for step in range(most + longer)]
    assert len(downsample(curve, most)) >= most // 2


def test_a_single_spike_survives_among_thousands():
    curve = [(float(step), 1.0) for step in range(10_000)]
    curve[7_777] = (7_777.0, 99.0)
    assert (7_777.0, 99.0) in downsample(curve, 100)


def test_a_loss_that_became_nan_is_still_seen():
    curve = [(float(step), 1.0 if step < 500 else math.nan) for step in range(1_000)]
    assert any(math.isnan(value) for _, value in downsample(curve, 50))


def test_fewer_than_four_points_are_refused():
    with pytest.raises(ValueError, match="at least 4"):
        downsample([], 3)


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


def test_a_gap_passes_through_and_is_forgotten():
    smoothed = smooth([2.0, math.nan, 2.0], 0.9)
    assert smoothed[0] == pytest.approx(2.0)
    assert math.isnan(smoothed[1])
    assert smoothed[2] == pytest.approx(2.0)


@pytest.mark.parametrize("weight", [-0.1, 1.0])
def test_a_weight_that_forgets_or_keeps_everything_is_refused(weight: float):
    with pytest.raises(ValueError, match="at least 0 and less than 1"):
        smooth([1.0], weight)
