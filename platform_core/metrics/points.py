"""The points of one series as columns: their order, replacement by later attempts, and duplicates."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

POINT = np.dtype([("step", "<i8"), ("at_ms", "<i8"), ("value", "<f8"), ("attempt", "<i4")])

Points: TypeAlias = npt.NDArray[np.void]  # of POINT
Places: TypeAlias = npt.NDArray[np.int64]
NONE = np.zeros(0, POINT)


def points(steps: Any, values: Any, times_ms: Any, attempt: int = 0) -> Points:
    """Points from three columns, unordered. Every NaN gets the same bits, so that equal points are equal bytes."""
    result = np.empty(len(steps), POINT)
    result["step"], result["value"], result["at_ms"], result["attempt"] = steps, values, times_ms, attempt
    result["value"][np.isnan(result["value"])] = np.nan
    return result


def visible(batch: Points, series: Places | None = None) -> Places:
    """Indices of the points that count, in the order of step, time and value.

    Of each step only the points of the last attempt that reported it count, and equal points count once. With `series`
    (a number for each point) the points of many series are put in order at once, one series after the other.
    """
    if len(batch) == 0:
        return np.zeros(0, np.int64)
    steps, bits = batch["step"], _ranks(batch["value"])
    columns = (bits, batch["at_ms"], steps)
    order = np.lexsort(columns if series is None else (*columns, series))
    same_step = steps[order][1:] == steps[order][:-1]
    if series is not None:
        same_step &= series[order][1:] == series[order][:-1]
    if not same_step.any():
        return order
    order = order[_of_last_attempt(batch["attempt"][order], same_step)]
    return order[~_repeated(batch, bits, order, series)]


def _of_last_attempt(attempts: Places, same_step: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    starts = np.flatnonzero(np.concatenate(([True], ~same_step)))
    last = np.maximum.reduceat(attempts, starts)
    kept: npt.NDArray[np.bool_] = attempts == np.repeat(last, np.diff(starts, append=len(attempts)))
    return kept


def _repeated(batch: Points, bits: Places, order: Places, series: Places | None) -> npt.NDArray[np.bool_]:
    columns = [batch["step"], batch["at_ms"], bits] + ([] if series is None else [series])
    equal = np.ones(len(order) - 1, bool)
    for column in columns:
        equal &= column[order][1:] == column[order][:-1]
    return np.concatenate(([False], equal))


def _ranks(values: npt.NDArray[np.float64]) -> Places:
    """Integers in the order of the values: -inf first, NaN last, -0.0 before 0.0."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))


def merged(parts: Sequence[Points]) -> Points:
    """The points that count of several batches of one series, in order."""
    together = np.concatenate(parts) if parts else NONE
    return together[visible(together)]


def place(batch: Points, step: int, at_ms: int, *, after: bool = False) -> int:
    """How many points of an ordered batch stand before this step and time, or with `after` up to them."""
    low = int(np.searchsorted(batch["step"], step, "left"))
    high = int(np.searchsorted(batch["step"], step, "right"))
    return low + int(np.searchsorted(batch["at_ms"][low:high], at_ms, "right" if after else "left"))
