"""Curves as columns of pixels: each column says which points it stands for, and their least and greatest value.

The curves of many series are drawn at once: their blocks and points stand one series after the other, each with the
number of its series and with its least and greatest x.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from platform_core.metrics.blocks import BLOCK_POINTS, Blocks, merge, summarise
from platform_core.metrics.points import Places, Points

X: TypeAlias = npt.NDArray[Any]  # of whole numbers or floats
_EXACT = 22  # the greatest power of ten that a float64 holds without error
_POWERS = 10.0 ** np.arange(_EXACT + 1)
Mask: TypeAlias = npt.NDArray[np.bool_]
Window = tuple[float, float]  # both ends belong to it


@dataclass(frozen=True, slots=True)
class Bands:
    """One entry a column. `x_from` and `x_to` are the least and greatest x of the points in it; columns without points
    are left out. `low`, `high` and `mean` are over finite values, None without any; `last` is the value of the last
    step, None where it is not finite."""

    x_from: list[float] = field(default_factory=list)
    x_to: list[float] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    mean: list[float | None] = field(default_factory=list)
    last: list[float | None] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    non_finite: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stretches:
    """Blocks of series, each with the number of its series and its least and greatest x."""

    blocks: Blocks
    series: Places
    x_low: X
    x_high: X

    def where(self, chosen: Mask) -> "Stretches":
        return Stretches(self.blocks[chosen], self.series[chosen], self.x_low[chosen], self.x_high[chosen])


def beside(one: Stretches, other: Stretches) -> Stretches:
    return Stretches(
        np.concatenate((one.blocks, other.blocks)),
        np.concatenate((one.series, other.series)),
        np.concatenate((one.x_low, other.x_low)),
        np.concatenate((one.x_high, other.x_high)),
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """What the curves are drawn into: a window for each series, divided into columns of equal width."""

    windows: Sequence[Window]
    columns: int

    def inside(self, series: Places, x_low: X, x_high: X) -> Mask:
        low, high = self._ends(series, x_low.dtype)
        result: Mask = (x_high >= low) & (x_low <= high)
        return result

    def places(self, series: Places, x: X, counts: Places) -> Places:
        """The number of a column for each x, greater for later series. As many points as columns or fewer have a
        column for each x."""
        low, high = (ends.astype(np.float64) for ends in self._ends(series, np.dtype(float)))
        width = np.maximum(high - low, 1e-300)
        column = np.clip((x.astype(np.float64) - low) / width * self.columns, 0, self.columns - 1).astype(
            np.int64
        )
        few = np.bincount(series, counts, len(self.windows))[series] <= self.columns
        if few.any():
            column[few] = _ranks(series[few], x[few])
        return series * (max(self.columns, len(x)) + 1) + column

    def too_coarse(self, of: Stretches) -> Mask:
        """Which blocks cannot be drawn whole: they reach over an end of the window, or are wider than a column.

        A window of few points is drawn point by point; the blocks at its two ends may hold others.
        """
        low, high = self._ends(of.series, of.x_low.dtype)
        inside = (of.x_high >= low) & (of.x_low <= high)
        points = np.bincount(of.series, of.blocks["count"] * inside, len(self.windows))
        few = points[of.series] <= self.columns + 2 * BLOCK_POINTS
        over_an_end = (of.x_low < low) | (of.x_high > high)
        wide = of.x_high.astype(np.float64) - of.x_low > (high.astype(np.float64) - low) / self.columns
        result: Mask = inside & (few | over_an_end | wide)
        return result

    def _ends(self, series: Places, kind: np.dtype[Any]) -> tuple[X, X]:
        whole = kind.kind == "i" and all(isinstance(end, int) for window in self.windows for end in window)
        ends = np.array(self.windows, kind if whole else np.float64).reshape(-1, 2)
        return ends[series, 0], ends[series, 1]


def gathered(points: Points, series: Places, x: X, frame: Frame) -> Stretches:
    """The points inside their windows as one stretch for each column."""
    points, series, x, starts = _in_columns(points, series, x, frame)
    return Stretches(summarise(points, starts), series[starts], *_extents(x, x, starts))


def of_points(value: X, series: Places, x: X, frame: Frame, digits: int = 17) -> list[Bands]:
    """What `bands` makes of points alone, of which it needs the values only."""
    value, series, x, starts = _in_columns(value, series, x, frame)
    if len(starts) == 0:
        return [Bands() for _ in frame.windows]
    finite = np.isfinite(value)
    count = np.diff(starts, append=len(value))
    there = count if finite.all() else np.add.reduceat(finite.astype(np.int64), starts)
    low = np.minimum.reduceat(value if there is count else np.where(finite, value, np.inf), starts)
    high = np.maximum.reduceat(value if there is count else np.where(finite, value, -np.inf), starts)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(value if there is count else np.where(finite, value, 0.0), starts)
    last = value[starts + count - 1]
    known = there > 0
    columns: tuple[list[Any], ...] = (
        *(end.tolist() for end in _extents(x, x, starts)),
        _where(known, rounded(low, digits)),
        _where(known, rounded(high, digits)),
        _where(known, rounded(_mean(total, there, low, high), digits)),
        _where(np.isfinite(last), rounded(last, digits)),
        count.tolist(),
        (count - there).tolist(),
    )
    return _by_series(columns, series[starts], frame)


def _in_columns(points: X, series: Places, x: X, frame: Frame) -> tuple[X, Places, X, Places]:
    """Those points or values inside their windows, column after column, and where each column begins."""
    inside = frame.inside(series, x, x)
    if not inside.all():
        points, series, x = points[inside], series[inside], x[inside]
    place = frame.places(series, x, np.ones(len(x), np.int64))
    if (np.diff(place) < 0).any():
        order = np.argsort(place, kind="stable")
        points, series, x, place = points[order], series[order], x[order], place[order]
    return points, series, x, np.flatnonzero(np.diff(place, prepend=-1))


def _by_series(columns: Sequence[list[Any]], series: Places, frame: Frame) -> list[Bands]:
    """The columns of all series as the curve of each."""
    ends = np.searchsorted(series, np.arange(len(frame.windows) + 1)).tolist()
    return [Bands(*(column[first:end] for column in columns)) for first, end in pairwise(ends)]


def bands(stretches: Stretches, frame: Frame, digits: int = 17) -> list[Bands]:
    """The curve of each series of the frame; each stretch is in the column of its middle. Values are as exact as so
    many significant digits."""
    drawn = stretches.where(frame.inside(stretches.series, stretches.x_low, stretches.x_high))
    if len(drawn.blocks) == 0:
        return [Bands() for _ in frame.windows]
    middle = drawn.x_low + (drawn.x_high - drawn.x_low) / 2
    place = frame.places(drawn.series, middle, drawn.blocks["count"])
    order = np.lexsort((drawn.blocks["first_ms"], drawn.blocks["first_step"], place))
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    whole = merge(drawn.blocks[order], starts)
    # Points at both ends of a column may be one stretch, around whole blocks: the last step decides.
    by_end = np.lexsort((drawn.blocks["last_ms"], drawn.blocks["last_step"], place))
    last = drawn.blocks["last"][by_end][np.append(starts[1:], len(order)) - 1]
    finite = whole["finite"] > 0
    x_from, x_to = _extents(drawn.x_low[order], drawn.x_high[order], starts)
    columns: tuple[list[Any], ...] = (
        x_from.tolist(),
        x_to.tolist(),
        _where(finite, rounded(whole["min"], digits)),
        _where(finite, rounded(whole["max"], digits)),
        _where(finite, rounded(_mean(whole["sum"], whole["finite"], whole["min"], whole["max"]), digits)),
        _where(np.isfinite(last), rounded(last, digits)),
        whole["count"].tolist(),
        (whole["count"] - whole["finite"]).tolist(),
    )
    return _by_series(columns, drawn.series[order][starts], frame)


def over_metric(points: Points, other: Points) -> tuple[Points, X]:
    """The points of steps at which another metric is finite, and its last value there as their x; both in order."""
    step = np.ascontiguousarray(other["step"])
    at = np.searchsorted(step, points["step"], "right") - 1
    x = np.ascontiguousarray(other["value"])[at] if len(other) else np.zeros(len(points))
    known = (at >= 0) & np.isfinite(x)
    known[known] &= step[at[known]] == points["step"][known]
    return points[known], x[known]


def rounded(values: npt.NDArray[np.float64], digits: int) -> npt.NDArray[np.float64]:
    """To so many significant digits; from 17 on, and where there is nothing to round, as they are."""
    if digits >= 17:
        return values
    with np.errstate(all="ignore"):
        exponents = digits - 1 - np.floor(np.log10(np.abs(values)))
        near = np.abs(exponents) <= _EXACT
        whole = np.where(near, exponents, 0).astype(np.int64)
        up, down = _POWERS[np.maximum(whole, 0)], _POWERS[np.maximum(-whole, 0)]
        result: npt.NDArray[np.float64] = np.round(values * up / down) / up * down
    return np.where(np.isfinite(result) & near, result, values)


def _ranks(series: Places, x: X) -> Places:
    """Of each x among the different ones of all these series."""
    order = np.lexsort((x, series))
    new = (np.diff(series[order], prepend=-1) != 0) | np.concatenate(([True], x[order][1:] != x[order][:-1]))
    ranks = np.empty(len(x), np.int64)
    ranks[order] = np.cumsum(new) - 1
    return ranks


def _extents(x_low: X, x_high: X, starts: Places) -> tuple[X, X]:
    if len(starts) == 0:
        return x_low, x_high
    return np.minimum.reduceat(x_low, starts), np.maximum.reduceat(x_high, starts)


def _mean(total: X, finite: X, low: X, high: X) -> npt.NDArray[np.float64]:
    """The sum may have overflowed; rounding never leads out of the band."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = total / np.maximum(finite, 1)
        mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)
    result: npt.NDArray[np.float64] = np.minimum(np.maximum(mean, low), high)
    return result


def _where(there: Mask, values: npt.NDArray[np.float64]) -> list[float | None]:
    result: list[float | None] = values.tolist()
    for index in np.flatnonzero(~there).tolist():
        result[index] = None
    return result
