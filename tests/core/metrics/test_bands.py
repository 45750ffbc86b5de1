"""Columns of pixels claim points by their first and last x; a naive walk over those points must find the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.metrics import bands as module
from platform_core.metrics.bands import (
    Bands,
    Frame,
    Stretches,
    bands,
    beside,
    gathered,
    of_points,
    over_metric,
)
from platform_core.metrics.blocks import summarise
from platform_core.metrics.points import Points, merged, points

VALUES = st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308]) | st.floats(-100, 100)
SERIES = st.lists(
    st.tuples(st.integers(0, 3_000), VALUES), min_size=1, max_size=80, unique_by=lambda row: row[0]
)
WINDOWS = st.tuples(st.integers(-10, 3_010), st.integers(-10, 3_010)).map(sorted).map(tuple)


def series(rows: list[tuple[int, float]]) -> Points:
    return merged([points([step for step, _ in rows], [value for _, value in rows], [0] * len(rows))])


def stretches_of(curve: Points, block: int, number: int = 0) -> Stretches:
    blocks = summarise(curve, np.arange(0, len(curve), block))
    return Stretches(blocks, np.full(len(blocks), number), blocks["first_step"], blocks["last_step"])


def drawn(curves: list[Points], windows: list[tuple[int, int]], columns: int, block: int) -> list[Bands]:
    """As a reader of the store does it: whole blocks where they suffice, points elsewhere."""
    frame = Frame(windows, columns)
    parts = [stretches_of(curve, block, number) for number, curve in enumerate(curves)]
    whole = parts[0]
    for part in parts[1:]:
        whole = beside(whole, part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_POINTS", block)
        coarse = frame.too_coarse(whole)
    points = np.concatenate(curves)
    numbers = np.repeat(np.arange(len(curves)), [len(curve) for curve in curves])
    needed = np.repeat(coarse, whole.blocks["count"])
    fine = gathered(points[needed], numbers[needed], points["step"][needed], frame)
    return bands(beside(whole.where(~coarse), fine), frame)


@given(
    st.lists(st.tuples(SERIES, WINDOWS), min_size=1, max_size=3),
    st.integers(1, 30),
    st.sampled_from([1, 4, 16]),
)
def test_each_column_is_what_its_points_say(
    curves: list[tuple[list[tuple[int, float]], tuple[int, int]]], columns: int, block: int
) -> None:
    results = drawn([series(rows) for rows, _ in curves], [window for _, window in curves], columns, block)
    for (rows, window), result in zip(curves, results, strict=True):
        agrees(dict(rows), window, columns, result)


@given(
    st.lists(st.tuples(SERIES, WINDOWS), min_size=1, max_size=3), st.integers(1, 30), st.sampled_from([4, 17])
)
def test_points_alone_give_what_their_stretches_would(
    curves: list[tuple[list[tuple[int, float]], tuple[int, int]]], columns: int, digits: int
) -> None:
    parts = [series(rows) for rows, _ in curves]
    frame = Frame([window for _, window in curves], columns)
    points, numbers = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    others = (numbers, points["step"], frame)
    assert of_points(points["value"], *others, digits) == bands(gathered(points, *others), frame, digits)


def agrees(known: dict[int, float], window: tuple[int, int], columns: int, result: Bands) -> None:
    inside = sorted(step for step in known if window[0] <= step <= window[1])
    claimed = [
        [step for step in inside if low <= step <= high]
        for low, high in zip(result.x_from, result.x_to, strict=True)
    ]
    assert [step for column in claimed for step in column] == inside, "each point is in one column, in order"
    assert len(claimed) <= columns
    for number, column in enumerate(claimed):
        finite = [known[step] for step in column if math.isfinite(known[step])]
        assert (result.count[number], result.non_finite[number]) == (len(column), len(column) - len(finite))
        assert (result.low[number], result.high[number]) == (
            min(finite, default=None),
            max(finite, default=None),
        )
        last = known[column[-1]]
        assert result.last[number] == (last if math.isfinite(last) else None)
        mean = result.mean[number]
        assert (mean is None) == (not finite)
        if mean is not None:
            assert min(finite) <= mean <= max(finite)
            if max(map(abs, finite)) < 1e6:
                assert mean == pytest.approx(sum(finite) / len(finite), abs=1e-9)


@given(SERIES, st.integers(80, 100))
def test_as_many_columns_as_points_give_every_point(rows: list[tuple[int, float]], columns: int) -> None:
    [result] = drawn([series(rows)], [(0, 3_000)], columns, 16)
    assert result.x_from == result.x_to == sorted(step for step, _ in rows)


@given(SERIES, SERIES)
def test_another_metric_gives_the_x_of_the_steps_that_both_have(
    rows: list[tuple[int, float]], others: list[tuple[int, float]]
) -> None:
    known = {step: value for step, value in others if math.isfinite(value)}
    chosen, x = over_metric(series(rows), series(others))
    shared = sorted(step for step, _ in rows if step in known)
    assert chosen["step"].tolist() == shared
    assert x.tolist() == [known[step] for step in shared]


def test_a_long_curve_that_is_zoomed_out_needs_no_points() -> None:
    curve = points(np.arange(100_000), np.zeros(100_000), np.zeros(100_000))
    stretches = stretches_of(curve, 512)
    assert not Frame([(0, 99_999)], 100).too_coarse(stretches).any()
    assert Frame([(700, 99_999)], 100).too_coarse(stretches).sum() == 1


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_values_are_rounded_as_they_are_written(values: list[float]) -> None:
    short = module.rounded(np.array(values), 6).tolist()
    for value, result in zip(values, short, strict=True):
        assert result == pytest.approx(value, rel=6e-6)
        if 1e-9 < abs(value) < 1e15:
            assert float(f"{result:.6g}") == result
