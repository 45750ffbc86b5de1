"""A curve as columns of pixels: each column says which points it stands for, and their least and greatest value."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from platform_core.metrics.blocks import BLOCK_POINTS, Blocks, merge, summarise
from platform_core.metrics.points import Places, Points

X: TypeAlias = npt.NDArray[Any]  # of whole numbers or floats
Window = tuple[float, float]  # both ends belong to it
Stretches = tuple[Blocks, X, X]  # with the least and the greatest x of each


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


def too_coarse(stretches: Stretches, window: Window, columns: int) -> npt.NDArray[np.bool_]:
    """Which blocks cannot be drawn whole: they reach over an end of the window, or are wider than a column.

    A window of few points is drawn point by point; the blocks at its two ends may hold others.
    """
    blocks, x_low, x_high = stretches
    low, high = window
    inside = _inside(x_low, x_high, window)
    if int(blocks["count"][inside].sum()) <= columns + 2 * BLOCK_POINTS:
        return inside
    over_an_end = (x_low < low) | (x_high > high)
    wide = x_high.astype(np.float64) - x_low > (float(high) - float(low)) / columns
    return inside & (over_an_end | wide)


def gathered(points: Points, x: X, window: Window, columns: int) -> Stretches:
    """The points inside the window as one stretch for each column, or for each x where there are few."""
    inside = _inside(x, x, window)
    points, x = points[inside], x[inside]
    column = _columns(x, len(points), window, columns)
    if (np.diff(column) < 0).any():
        order = np.argsort(column, kind="stable")
        points, x, column = points[order], x[order], column[order]
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    return summarise(points, starts), _least(x, starts), _greatest(x, starts)


def beside(stretches: Stretches, others: Stretches) -> Stretches:
    return (
        np.concatenate((stretches[0], others[0])),
        np.concatenate((stretches[1], others[1])),
        np.concatenate((stretches[2], others[2])),
    )


def bands(stretches: Stretches, window: Window, columns: int) -> Bands:
    """Stretches, each in the column of its middle; as many points as columns, or fewer, keep a column for each x."""
    blocks, x_low, x_high = stretches
    inside = _inside(x_low, x_high, window)
    blocks, x_low, x_high = blocks[inside], x_low[inside], x_high[inside]
    if len(blocks) == 0:
        return Bands()
    column = _columns(x_low + (x_high - x_low) / 2, int(blocks["count"].sum()), window, columns)
    order = np.lexsort((blocks["first_ms"], blocks["first_step"], column))
    starts = np.flatnonzero(np.diff(column[order], prepend=-1))
    whole = merge(blocks[order], starts)
    finite = whole["finite"] > 0
    return Bands(
        x_from=_least(x_low[order], starts).tolist(),
        x_to=_greatest(x_high[order], starts).tolist(),
        low=_where(finite, whole["min"]),
        high=_where(finite, whole["max"]),
        mean=_where(finite, _mean(whole)),
        last=_where(np.isfinite(whole["last"]), whole["last"]),
        count=whole["count"].tolist(),
        non_finite=(whole["count"] - whole["finite"]).tolist(),
    )


def _inside(x_low: X, x_high: X, window: Window) -> npt.NDArray[np.bool_]:
    low, high = window
    result: npt.NDArray[np.bool_] = (x_high >= low) & (x_low <= high)
    return result


def _columns(x: X, points: int, window: Window, columns: int) -> Places:
    if points <= columns:
        return np.unique(x, return_inverse=True)[1]
    low, high = float(window[0]), float(window[1])
    width = high - low
    if width <= 0:
        return np.zeros(len(x), np.int64)
    share = (x.astype(np.float64) - low) / width
    return np.clip(share * columns, 0, columns - 1).astype(np.int64)


def _mean(blocks: Blocks) -> npt.NDArray[np.float64]:
    """The sum may have overflowed; rounding never leads out of the band."""
    low, high = blocks["min"], blocks["max"]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = blocks["sum"] / np.maximum(blocks["finite"], 1)
        mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)
    result: npt.NDArray[np.float64] = np.minimum(np.maximum(mean, low), high)
    return result


def _least(x: X, starts: Places) -> X:
    return np.minimum.reduceat(x, starts) if len(starts) else x


def _greatest(x: X, starts: Places) -> X:
    return np.maximum.reduceat(x, starts) if len(starts) else x


def _where(there: npt.NDArray[np.bool_], values: npt.NDArray[np.float64]) -> list[float | None]:
    result: list[float | None] = values.tolist()
    for index in np.flatnonzero(~there).tolist():
        result[index] = None
    return result


def over_metric(points: Points, other: Points) -> tuple[Points, X]:
    """The points of steps at which another metric is finite, and its last value there as their x; both in order."""
    step = np.ascontiguousarray(other["step"])
    at = np.searchsorted(step, points["step"], "right") - 1
    x = np.ascontiguousarray(other["value"])[at] if len(other) else np.zeros(len(points))
    known = (at >= 0) & np.isfinite(x)
    known[known] &= step[at[known]] == points["step"][known]
    return points[known], x[known]
