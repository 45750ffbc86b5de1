"""How what is stored grows, and when a limit is reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

LEAST_DAYS = 3  # fewer say nothing of a trend
MOST_DAYS = 10 * 365  # and a trend of a month says nothing of what comes later


@dataclass(frozen=True, slots=True)
class Day:
    number: int  # days since 1970-01-01, UTC
    bytes: int


def per_day(days: Sequence[Day]) -> float | None:
    """Bytes by which it grows each day; None while fewer than LEAST_DAYS days are known.

    The median of the slopes between all pairs of days (Theil-Sen; Sen 1968, J. Am. Stat. Assoc. 63, p. 1379): a
    single large upload or deletion does not turn the trend.
    """
    by_number = {day.number: day.bytes for day in days}
    if len(by_number) < LEAST_DAYS:
        return None
    ordered = sorted(by_number.items())
    return statistics.median(
        (after[1] - before[1]) / (after[0] - before[0]) for before, after in combinations(ordered, 2)
    )


def days_left(used: int, limit: int, growth: float | None) -> float | None:
    """Until the limit is reached at this growth; 0 where it is, None where it is not within MOST_DAYS or nothing is
    known."""
    if used >= limit:
        return 0.0
    if growth is None or growth <= 0:
        return None
    left = (limit - used) / growth
    return left if left <= MOST_DAYS else None
