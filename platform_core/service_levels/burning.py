"""Alerts on an error budget that burns too fast, over two windows each: The Site Reliability Workbook, chapter 5."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.service_levels.budget import Counts, burn_rate
from platform_core.units import HOUR_MS, MINUTE_MS


@dataclass(frozen=True, slots=True)
class Burn:
    """The long window shows that much is lost, the short one that it still is."""

    code: str
    long_ms: int
    short_ms: int
    limit: float


FAST = Burn("fast", HOUR_MS, 5 * MINUTE_MS, 14.4)  # 2 % of the budget of 30 days within an hour
SLOW = Burn("slow", 6 * HOUR_MS, 30 * MINUTE_MS, 6.0)  # 5 % within six hours
LEAST_EVENTS = 10  # fewer in the long window say nothing
LEAST_BAD = 3  # a single lost minute or job of few is 14 times too fast and tells nothing about the next


def sustained(long: Counts, short: Counts, target: float) -> float | None:
    """The smaller burn rate of both windows: it is above a limit where both are. None where too little is known."""
    if long.total < LEAST_EVENTS:
        return None
    if long.bad < LEAST_BAD:
        return 0.0
    lasting, current = burn_rate(long, target), burn_rate(short, target)
    return None if lasting is None or current is None else min(lasting, current)
