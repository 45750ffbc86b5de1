"""Good events of all events, and the error budget that a target leaves. Without events nothing is known: None."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Counts:
    """Events of a period, or milliseconds of time. Raises ValueError for more good ones than there are."""

    good: float = 0
    total: float = 0

    def __post_init__(self) -> None:
        if not 0 <= self.good <= self.total:
            raise ValueError(f"{self.good} good of {self.total} is not between none and all")

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.good + other.good, self.total + other.total)

    @property
    def bad(self) -> float:
        return self.total - self.good

    @property
    def compliance(self) -> float | None:
        return self.good / self.total if self.total else None


class Standing(StrEnum):
    MET = "met"
    MISSED = "missed"
    NO_DATA = "no_data"


def standing(counts: Counts, target: float) -> Standing:
    if counts.compliance is None:
        return Standing.NO_DATA
    return Standing.MET if counts.compliance >= target else Standing.MISSED


def budget_left(counts: Counts, target: float) -> float | None:
    """1: nothing is spent, 0: all of it is. Negative: as much again and more is overspent."""
    rate = burn_rate(counts, target)
    return None if rate is None else 1 - rate


def burn_rate(counts: Counts, target: float) -> float | None:
    """The share of bad events over the share that the target allows: at 1 the budget lasts for just its period."""
    if not 0 < target < 1:
        raise ValueError(f"a target of {target} leaves no error budget; it must lie between 0 and 1")
    return counts.bad / counts.total / (1 - target) if counts.total else None


class Trend(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    UNCHANGED = "unchanged"
    NO_DATA = "no_data"


STEADY = 0.1  # a change of less than this part of the error budget is none


def trend(before: Counts, now: Counts, target: float) -> Trend:
    """How a period compares with the one before it."""
    earlier, later = burn_rate(before, target), burn_rate(now, target)
    if earlier is None or later is None:
        return Trend.NO_DATA
    if abs(later - earlier) < STEADY:
        return Trend.UNCHANGED
    return Trend.BETTER if later < earlier else Trend.WORSE
