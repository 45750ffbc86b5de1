"""Whether a dataset that used to be renewed is renewed no more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from platform_core.units import DAY_MS, MINUTE_MS

LEAST_VERSIONS = 3  # fewer have no usual interval: the dataset may never be meant to change


def overdue(created_ms: Sequence[int], now_ms: int) -> float | None:
    """The age of the newest version in usual intervals between versions, which count as a day at least."""
    if len(created_ms) < LEAST_VERSIONS:
        return None
    moments = sorted(created_ms)
    usual = max(DAY_MS, median(later - earlier for earlier, later in pairwise(moments)))
    return max(0, now_ms - moments[-1]) / usual


def of_promise(newest_ms: int, fresh_minutes: int, now_ms: int) -> float:
    """The age of the newest version in ages that were promised: beyond 1 it is late."""
    return max(0, now_ms - newest_ms) / (fresh_minutes * MINUTE_MS)
