"""How good the forecasts were: predicted against actual starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median_low

from platform_core.units import HOUR_MS, MINUTE_MS

TOLERANCE_MS = 10_000  # so far outside still counts as held, as rounds come every few seconds


class Came(StrEnum):
    EARLIER = "earlier"
    HELD = "held"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Start:
    """`early_ms` and `late_ms` as told at `told_ms` (None: no end in sight), `started_ms` as it came; one clock."""

    told_ms: int
    early_ms: int
    late_ms: int | None
    started_ms: int

    @property
    def miss_ms(self) -> int:
        """How far outside its interval it came: negative before it, positive after it."""
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
    """Of how many starts; how many came within the interval, before it, and after it; by how much they missed it.

    An interval that is wide enough always holds, so its width belongs to the judgement.
    """

    starts: int
    within: int
    before: int
    after: int
    median_miss_ms: int  # of those that missed; 0 when none did
    median_width_ms: int | None = None  # of those with an end in sight; None: there was none


def calibration(starts: Sequence[Start]) -> Calibration:
    came = [each.came for each in starts]
    missed = [abs(each.miss_ms) for each in starts if each.came is not Came.HELD]
    widths = [each.late_ms - each.early_ms for each in starts if each.late_ms is not None]
    return Calibration(
        starts=len(starts),
        within=came.count(Came.HELD),
        before=came.count(Came.EARLIER),
        after=came.count(Came.LATER),
        median_miss_ms=median_low(missed) if missed else 0,
        median_width_ms=median_low(widths) if widths else None,
    )


class Horizon(StrEnum):
    """Within how long, at the latest, a job was told to start."""

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
    """From the nearest; those that nobody was told are left out."""
    reached = [(horizon(each), each) for each in starts]
    return {
        one: calibration(mine) for one in Horizon if (mine := [each for far, each in reached if far is one])
    }
