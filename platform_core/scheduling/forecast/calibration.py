"""Calibration of forecasts: predicted against actual starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median_low

from platform_core.units import HOUR_MS, MINUTE_MS

TOLERANCE_MS = 10_000  # so far outside still counts as within, as rounds run every few seconds


class Came(StrEnum):
    EARLIER = "earlier"
    HELD = "held"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Start:
    """The forecast `early_ms` to `late_ms` (None: open) made at `told_ms`, and the actual `started_ms`; one clock."""

    told_ms: int
    early_ms: int
    late_ms: int | None
    started_ms: int

    @property
    def miss_ms(self) -> int:
        """How far the start lies outside its interval: negative before it, positive after it."""
        if self.started_ms < self.early_ms:
            return self.started_ms - self.early_ms
        return 0 if self.late_ms is None else max(0, self.started_ms - self.late_ms)

    @property
    def came(self) -> Came:
        if abs(self.miss_ms) <= TOLERANCE_MS:
            return Came.HELD
        return Came.EARLIER if self.miss_ms < 0 else Came.LATER


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many starts lie within their interval, before it and after it, and by how much they miss it.

    A wide interval is easy to hit, so the width belongs to the judgement.
    """

    starts: int
    within: int
    before: int
    after: int
    median_miss_ms: int  # of the misses; 0 without any
    median_width_ms: int | None = None  # of the closed intervals; None without any


def calibration(starts: Sequence[Start]) -> Calibration:
    came = [start.came for start in starts]
    missed = [abs(start.miss_ms) for start in starts if start.came is not Came.HELD]
    widths = [start.late_ms - start.early_ms for start in starts if start.late_ms is not None]
    return Calibration(
        starts=len(starts),
        within=came.count(Came.HELD),
        before=came.count(Came.EARLIER),
        after=came.count(Came.LATER),
        median_miss_ms=median_low(missed) if missed else 0,
        median_width_ms=median_low(widths) if widths else None,
    )


class Horizon(StrEnum):
    """How far ahead the latest forecast start of a job lay."""

    MINUTE = "1 min"
    MINUTES = "10 min"
    HOUR = "1 h"
    LONGER = "longer"
    OPEN = "open end"


def horizon(start: Start) -> Horizon:
    if start.late_ms is None:
        return Horizon.OPEN
    ahead_ms = start.late_ms - start.told_ms
    if ahead_ms <= MINUTE_MS:
        return Horizon.MINUTE
    if ahead_ms <= 10 * MINUTE_MS:
        return Horizon.MINUTES
    return Horizon.HOUR if ahead_ms <= HOUR_MS else Horizon.LONGER


def by_horizon(starts: Sequence[Start]) -> dict[Horizon, Calibration]:
    """Calibration by horizon, the nearest first; horizons without forecasts are left out."""
    by: dict[Horizon, list[Start]] = {}
    for start in starts:
        by.setdefault(horizon(start), []).append(start)
    return {reach: calibration(by[reach]) for reach in Horizon if reach in by}
