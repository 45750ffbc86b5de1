from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.seeds import Curve, SeedBand, is_seed, seed_band, seed_groups


@pytest.mark.parametrize("name", ["seed", "random_seed", "data.seed", "SEED", "name", "train-seed"])
def test_these_settings_do_not_tell_groups_apart(name: str):
    assert is_seed(name)


@pytest.mark.parametrize("name", ["seedling", "lr", "rename", "seed_size"])
def test_these_settings_do(name: str):
    assert not is_seed(name)


def test_runs_that_differ_only_in_their_seed_are_one_group():
    configs = [{"lr": lr, "seed": seed} for seed in (1, 2) for lr in (0.1, 0.2)]
    assert seed_groups(configs) == [[0, 2], [1, 3]]


def test_one_and_one_point_nought_are_one_setting_but_true_is_another():
    assert seed_groups([{"n": 1}, {"n": 1.0}, {"n": True}]) == [[0, 1], [2]]


def test_the_band_is_the_median_between_the_least_and_the_greatest():
    curves = [Curve([0, 1], [1.0, 1.0]), Curve([0, 1], [2.0, 5.0]), Curve([0, 1], [9.0, 3.0])]
    assert seed_band(curves, 100) == SeedBand([0, 1], [2.0, 3.0], [1.0, 1.0], [9.0, 5.0], [3, 3])


def test_a_shorter_curve_counts_no_further_than_it_goes():
    band = seed_band([Curve([0, 10], [0.0, 10.0]), Curve([0, 5], [2.0, 2.0])], 100)
    assert (band.x, band.median, band.runs) == ([0, 5, 10], [1.0, 3.5, 10.0], [2, 2, 1])


def test_values_that_are_not_finite_are_left_out():
    assert seed_band([Curve([0, 1, 2], [1.0, math.nan, 3.0])], 9).median == [1.0, 3.0]
    assert seed_band([Curve([0], [math.inf])], 9) == SeedBand()


CURVES = st.lists(
    st.lists(
        st.tuples(st.integers(0, 1000), st.floats(-1e6, 1e6)),
        min_size=1,
        max_size=30,
        unique_by=lambda p: p[0],
    ),
    min_size=1,
    max_size=5,
)


@given(CURVES, st.integers(10, 50))
def test_a_band_is_within_its_curves_and_as_fine_as_asked(
    points: list[list[tuple[int, float]]], columns: int
):
    curves = [Curve(*zip(*sorted(curve), strict=True)) for curve in points]
    band = seed_band(curves, columns)
    assert 1 <= len(band.x) <= columns
    assert band.x == sorted(set(band.x))
    values = [value for curve in curves for value in curve.y]
    for low, median, high in zip(band.low, band.median, band.high, strict=True):
        assert min(values) - 1e-6 <= low <= median <= high <= max(values) + 1e-6
