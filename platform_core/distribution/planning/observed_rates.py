"""How fast deployments come to nodes: learnt from those that lasted long enough to tell, bounded by the link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from platform_core.units import SECOND_MS

LEAST_MS, LEAST_BYTES = 10 * SECOND_MS, 64 << 20  # both: less is mostly the start and the check, not the line
ENOUGH_BYTES = 4 << 30  # tell, however quickly they came
UNPROVEN = 0.25  # of the configured link, at worst: disks, store and other traffic are not known
TAIL = 0.1  # of the bytes went slower than the low rate, and as much faster than the high one
MOST_FIXED_MS = 60 * SECOND_MS


class Basis(StrEnum):
    MEASURED = "measured"  # on deployments that were long enough to tell
    LINK = "configured_link"  # nothing was measured: what the operator says of the network


@dataclass(frozen=True, slots=True)
class Passed:
    """A deployment that is complete."""

    total_bytes: int
    took_ms: int

    @property
    def tells(self) -> bool:
        lasted = self.took_ms >= LEAST_MS and self.total_bytes >= LEAST_BYTES
        return lasted or self.total_bytes >= ENOUGH_BYTES

    @property
    def rate(self) -> float:
        return 1000 * self.total_bytes / max(1, self.took_ms)


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second along the way, `low` ≤ `likely` ≤ `high`; `fixed_ms` passes whatever the size is."""

    low: int
    likely: int
    high: int
    fixed_ms: int
    basis: Basis
    deployments: int  # that it was measured on


def observed(passed: Sequence[Passed], link: int) -> Rates:
    """Weighted by bytes, so that small ones move nothing."""
    small = [each.took_ms for each in passed if each.total_bytes < LEAST_BYTES]
    fixed_ms = min(MOST_FIXED_MS, round(median(small))) if small else 0
    telling = sorted((each for each in passed if each.tells), key=lambda each: each.rate)
    if not telling:
        return Rates(max(1, round(link * UNPROVEN)), link, link, fixed_ms, Basis.LINK, 0)
    moved, lasted_ms = sum(each.total_bytes for each in telling), sum(each.took_ms for each in telling)
    likely = min(link, 1000 * moved // max(1, lasted_ms))
    low, high = (_at(telling, part * moved) for part in (TAIL, 1 - TAIL))
    return Rates(
        low=max(1, min(int(low), likely)), likely=max(1, likely), high=max(1, likely, min(link, int(high))),
        fixed_ms=fixed_ms, basis=Basis.MEASURED, deployments=len(telling),
    )  # fmt: skip


def _at(slowest_first: Sequence[Passed], moved_bytes: float) -> float:
    """The rate of the deployment in which that many of all bytes had come."""
    seen = 0
    for each in slowest_first:
        seen += each.total_bytes
        if seen >= moved_bytes:
            return each.rate
    return slowest_first[-1].rate
