"""Alarms of a training: a loss or gradient norm that is not finite, or far above what is usual for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite

LEAST_VALUES = 20  # before so many nobody knows what is usual
MEMORY = 0.05  # the weight of the newest value in what is usual
TIMES_THE_SPREAD = 10.0
LEAST_SPREAD = 0.02  # of the usual value: a curve that is nearly flat does not alarm for its noise
WATCHED = ("loss", "train_loss", "train/loss", "grad_norm", "gradient_norm", "train/grad_norm")


class Kind(StrEnum):
    NOT_FINITE = "not_finite"
    SPIKE = "spike"


@dataclass(frozen=True, slots=True)
class Usual:
    """A running estimate that one wild value hardly moves: each value is taken in at no more than its limit."""

    values: int = 0
    middle: float = 0.0
    spread: float = 0.0  # mean distance from the middle

    @property
    def limit(self) -> float:
        return self.middle + TIMES_THE_SPREAD * max(self.spread, LEAST_SPREAD * abs(self.middle))


@dataclass(frozen=True, slots=True)
class Alarm:
    kind: Kind
    value: float
    limit: float

    def sentence(self, name: str, step: int) -> str:
        if self.kind is Kind.NOT_FINITE:
            return f"{name} is not finite at step {step:,}"
        return f"{name} is {self.value:.4g} at step {step:,}; up to {self.limit:.4g} is usual"


def observe(usual: Usual, value: float) -> tuple[Usual, Alarm | None]:
    """What is usual after the value, and the alarm that it raises. Values that are not finite change nothing."""
    if not isfinite(value):
        return usual, Alarm(Kind.NOT_FINITE, value, usual.limit)
    if usual.values < LEAST_VALUES:
        weight = 1 / (usual.values + 1)
        return _taken_in(usual, value, weight), None
    limit = usual.limit
    alarm = Alarm(Kind.SPIKE, value, limit) if value > limit else None
    return _taken_in(usual, min(value, limit), MEMORY), alarm


def _taken_in(usual: Usual, value: float, weight: float) -> Usual:
    distance = value - usual.middle
    spread = usual.spread + weight * (abs(distance) - usual.spread) if usual.values else 0.0
    return replace(usual, values=usual.values + 1, middle=usual.middle + weight * distance, spread=spread)
