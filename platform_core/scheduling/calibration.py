"""How good the forecasts were: predicted against actual starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low


@dataclass(frozen=True, slots=True)
class Start:
    """`early_ms` and `late_ms` as first predicted (None: no end in sight), `started_ms` as it came; one clock."""

    early_ms: int
    late_ms: int | None
    started_ms: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of how many starts; how many came within the interval, before it, and after it; by how much they missed it."""

    starts: int
    within: int
    before: int
    after: int
    median_miss_ms: int  # of those that missed; 0 when none did


def calibration(starts: Sequence[Start], tolerance_ms: int = 10_000) -> Calibration:
    """`tolerance_ms`: a start is within the interval up to that far outside, as rounds come every few seconds."""
    before = [
        each.early_ms - each.started_ms for each in starts if each.started_ms < each.early_ms - tolerance_ms
    ]
    after = [
        each.started_ms - each.late_ms
        for each in starts
        if each.late_ms is not None and each.started_ms > each.late_ms + tolerance_ms
    ]
    missed = sorted([*before, *after])
    return Calibration(
        starts=len(starts),
        within=len(starts) - len(missed),
        before=len(before),
        after=len(after),
        median_miss_ms=median_low(missed) if missed else 0,
    )
