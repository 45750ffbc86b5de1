"""Summaries of stretches of a series, and how summaries of neighbours become one."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from platform_core.metrics.points import Places, Points

# `low_ms` and `high_ms` are the earliest and latest time, `first_ms` and `last_ms` those of the first and last step.
# Without a finite value `min` is infinity and `max` is minus infinity.
BLOCK = np.dtype(
    [
        ("first_step", "<i8"), ("last_step", "<i8"), ("first_ms", "<i8"), ("last_ms", "<i8"),
        ("low_ms", "<i8"), ("high_ms", "<i8"), ("count", "<i8"), ("finite", "<i8"),
        ("first", "<f8"), ("last", "<f8"), ("min", "<f8"), ("max", "<f8"),
        ("min_step", "<i8"), ("max_step", "<i8"), ("sum", "<f8"),
    ]
)  # fmt: skip
BLOCK_POINTS = 512

Blocks: TypeAlias = npt.NDArray[np.void]  # of BLOCK
Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
NONE = np.zeros(0, BLOCK)


def summarise(points: Points, starts: Places) -> Blocks:
    """One block for each group of points; `starts` are the indices at which the groups begin."""
    step, at_ms, value = (np.ascontiguousarray(points[name]) for name in ("step", "at_ms", "value"))
    finite = np.isfinite(value)
    columns = {
        "first_step": step, "last_step": step, "min_step": step, "max_step": step,
        "first_ms": at_ms, "last_ms": at_ms, "low_ms": at_ms, "high_ms": at_ms,
        "count": np.ones(len(points), np.int64), "finite": finite.astype(np.int64), "first": value, "last": value,
        "min": np.where(finite, value, np.inf), "max": np.where(finite, value, -np.inf),
        "sum": np.where(finite, value, 0.0),
    }  # fmt: skip
    return _merge(columns, starts)


def blocks_of(points: Points) -> Blocks:
    """Blocks of 512 points."""
    return summarise(points, np.arange(0, len(points), BLOCK_POINTS))


def merge(blocks: Blocks, starts: Places) -> Blocks:
    """One block for each group of neighbours; `starts` are the indices at which the groups begin."""
    return _merge({name: np.ascontiguousarray(blocks[name]) for name in BLOCK.names or ()}, starts)


def total(blocks: Blocks) -> Blocks:
    """All of them as one block; none of none."""
    return merge(blocks, np.zeros(min(1, len(blocks)), np.int64))


def joined(parts: Sequence[Blocks]) -> Blocks:
    """Blocks of several stretches in the order of their first points: step, time, then value with NaN last."""
    together = np.concatenate(parts) if parts else NONE
    first = together["first"]
    nan = np.isnan(first)
    value = np.where(nan, 0.0, first)
    return together[
        np.lexsort((np.copysign(1.0, value), value, nan, together["first_ms"], together["first_step"]))
    ]


def _merge(columns: Columns, starts: Places) -> Blocks:
    result = np.zeros(len(starts), BLOCK)
    if len(starts) == 0:
        return result
    size = len(columns["count"])
    ends = np.append(starts[1:], size) - 1
    for name in ("first", "first_step", "first_ms"):
        result[name] = columns[name][starts]
    for name in ("last", "last_step", "last_ms"):
        result[name] = columns[name][ends]
    result["low_ms"] = np.minimum.reduceat(columns["low_ms"], starts)
    result["high_ms"] = np.maximum.reduceat(columns["high_ms"], starts)
    with np.errstate(over="ignore", invalid="ignore"):
        for name in ("count", "finite", "sum"):
            result[name] = np.add.reduceat(columns[name], starts)
    groups = np.repeat(np.arange(len(starts)), ends - starts + 1)
    for name, extreme in (("min", np.minimum), ("max", np.maximum)):
        result[name] = extreme.reduceat(columns[name], starts)
        # the first of its group that has the extreme value
        having = np.flatnonzero(columns[name] == result[name][groups])
        first = having[np.searchsorted(having, starts)]
        result[f"{name}_step"] = columns[f"{name}_step"][first]
    return result
