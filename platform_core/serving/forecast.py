"""What an endpoint will be asked soon, by what the days of the last week were asked at this time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from platform_core.units import DAY_MS, MINUTE_MS

DAYS = 7
BEFORE_MS = 10 * MINUTE_MS  # in which today and a past day are compared
AHEAD_MS = 3 * MINUTE_MS  # in which a replica that is asked for now will be ready
SMOOTH = 3  # readings that are taken together: a shorter burst is queued
LEAST_DAYS = 3
MOST_GROWTH = 3.0  # today beside a past day


@dataclass(frozen=True, slots=True)
class Past:
    """The demand, in requests at once, in the readings of one day around this time."""

    before: Sequence[float]
    ahead: Sequence[float]


def windows(now_ms: int) -> list[tuple[int, int]]:
    """The spans of the last week that `expected` wants, the latest day first."""
    return [
        (now_ms - day * DAY_MS - BEFORE_MS, now_ms - day * DAY_MS + AHEAD_MS) for day in range(1, DAYS + 1)
    ]


def expected(today: Sequence[float], days: Sequence[Past]) -> float:
    """The demand to be ready for: the median of the days, each scaled by what today asks beside it.

    `today` are the readings before now. 0.0 where fewer than LEAST_DAYS days were asked anything.
    """
    level = fmean(today) if today else 0.0
    forecasts = []
    for day in days:
        before = fmean(day.before) if day.before else 0.0
        if before > 0 and day.ahead:
            forecasts.append(_peak(day.ahead) * min(MOST_GROWTH, level / before))
    return median(forecasts) if len(forecasts) >= LEAST_DAYS else 0.0


def _peak(readings: Sequence[float]) -> float:
    width = min(SMOOTH, len(readings))
    return max(fmean(readings[start : start + width]) for start in range(len(readings) - width + 1))
