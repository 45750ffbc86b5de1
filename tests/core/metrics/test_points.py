"""Which points count, and in which order: the columns against the rules in plain words."""

import math
import struct
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from platform_core.metrics.blocks import BLOCK, joined, merge, summarise, total
from platform_core.metrics.points import Points, merged, place, points, visible

VALUES = st.sampled_from([0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf]) | st.floats(width=64)
WHOLE = st.integers(0, 9) | st.integers(-(2**63), 2**63 - 1)
Row = tuple[int, int, float, int]  # step, time, value, attempt
ROWS = st.lists(st.tuples(WHOLE, WHOLE, VALUES, st.integers(0, 3)), max_size=40)


def batch(rows: Sequence[Row]) -> Points:
    result = points([row[0] for row in rows], [row[2] for row in rows], [row[1] for row in rows])
    result["attempt"] = [row[3] for row in rows]
    return result


def key(row: Row) -> tuple[int, int, bool, float, float]:
    step, at_ms, value, _ = row
    nan = math.isnan(value)
    return step, at_ms, nan, 0.0 if nan else value, 0.0 if nan else math.copysign(1, value)


def count_once(rows: Sequence[Row]) -> list[Row]:
    last = {step: max(attempt for other, _, _, attempt in rows if other == step) for step, *_ in rows}
    kept = {
        (row[0], row[1], struct.pack("d", math.nan if math.isnan(row[2]) else row[2])): row
        for row in rows
        if row[3] == last[row[0]]
    }
    return sorted(kept.values(), key=key)


def as_rows(batch: Points) -> str:
    return repr([(int(p["step"]), int(p["at_ms"]), float(p["value"]), int(p["attempt"])) for p in batch])


@given(ROWS)
def test_of_each_step_the_points_of_the_last_attempt_count_once_and_in_order(rows: list[Row]) -> None:
    expected = [
        (step, at_ms, abs(value) if math.isnan(value) else value, attempt)
        for step, at_ms, value, attempt in count_once(rows)
    ]
    assert as_rows(merged([batch(rows)])) == repr(expected)


@given(ROWS, ROWS)
def test_many_series_at_once_are_each_as_alone(one: list[Row], other: list[Row]) -> None:
    together, numbers = batch([*other, *one]), np.array([1] * len(other) + [0] * len(one), np.int64)
    order = visible(together, numbers)
    assert as_rows(together[order]) == as_rows(np.concatenate([merged([batch(one)]), merged([batch(other)])]))


@given(ROWS, WHOLE, WHOLE)
def test_a_place_is_the_number_of_points_before_it(rows: list[Row], step: int, at_ms: int) -> None:
    ordered = merged([batch(rows)])
    ends = [(int(point["step"]), int(point["at_ms"])) for point in ordered]
    assert place(ordered, step, at_ms) == sum(end < (step, at_ms) for end in ends)
    assert place(ordered, step, at_ms, after=True) == sum(end <= (step, at_ms) for end in ends)


def shown(number: np.number) -> str:
    """The extreme of 0.0 and -0.0 is either."""
    return repr(float(number) + 0.0)


@given(ROWS.filter(bool), st.data())
def test_summaries_of_parts_merge_to_the_summary_of_the_whole(rows: list[Row], data: st.DataObject) -> None:
    ordered = merged([batch(rows)])
    cuts = data.draw(st.sets(st.integers(0, len(ordered) - 1)))
    parts = summarise(ordered, np.array(sorted({0, *cuts}), np.int64))
    [whole] = summarise(ordered, np.zeros(1, np.int64))
    [again] = total(joined([parts[1:], parts[:1]]))
    exact = [name for name in BLOCK.names or () if name != "sum"]
    assert [shown(again[name]) for name in exact] == [shown(whole[name]) for name in exact]
    finite = [float(value) for value in ordered["value"] if math.isfinite(value)]
    assert (int(whole["count"]), int(whole["finite"])) == (len(ordered), len(finite))
    assert (whole["min"], whole["max"]) == (min(finite, default=math.inf), max(finite, default=-math.inf))
    if finite:
        first = next(int(point["step"]) for point in ordered if point["value"] == min(finite))
        assert whole["min_step"] == first


def test_points_of_one_moment_in_two_parts_keep_their_order() -> None:
    ordered = merged([batch([(0, 0, 1.0, 0), (0, 0, 0.0, 0), (0, 0, math.nan, 0)])])
    parts = summarise(ordered, np.array([0, 1, 2], np.int64))
    [again] = total(joined([parts[::-1]]))
    assert (again["first"], math.isnan(again["last"])) == (0.0, True)


def test_nothing_has_no_summary() -> None:
    nothing = batch([])
    assert (
        len(summarise(nothing, np.zeros(0, np.int64)))
        == len(total(merge(joined([]), np.zeros(0, np.int64))))
        == 0
    )
