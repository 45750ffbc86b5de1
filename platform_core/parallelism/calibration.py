"""One constant a cluster, from measured steps, and what error is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Calibration:
    """`factor` multiplies predicted seconds; `low` and `high` bound measured / calibrated for nine steps of ten.

    Without measurements they are the bounds of the published figures in benchmarks/results/planner.md.
    """

    factor: float = 1.0
    low: float = 0.9
    high: float = 1.2
    rows: int = 0


def calibrate(steps: Sequence[tuple[float, float]]) -> Calibration:
    """From (predicted, measured) seconds: the median ratio, which one bad row does not move."""
    if not steps:
        return Calibration()
    ratios = [measured / predicted for predicted, measured in steps]
    factor = median(ratios)
    if len(ratios) < 2:
        return Calibration(factor, rows=len(ratios))
    cuts = quantiles([ratio / factor for ratio in ratios], n=20, method="inclusive")
    return Calibration(factor, cuts[0], cuts[-1], len(ratios))


def errors(steps: Sequence[tuple[float, float]]) -> list[float]:
    """(predicted - measured) / measured, with the constant as it is."""
    return [predicted / measured - 1 for predicted, measured in steps]


def errors_leave_one_out(steps: Sequence[tuple[float, float]]) -> list[float]:
    """The same, each step with the constant that all others give."""
    ordered = sorted(range(len(steps)), key=lambda at: steps[at][1] / steps[at][0])
    ratios = [steps[at][1] / steps[at][0] for at in ordered]
    left = [0.0] * len(steps)
    for place, at in enumerate(ordered):
        predicted, measured = steps[at]
        left[at] = predicted * _median_without(ratios, place) / measured - 1
    return left


def _median_without(ordered: Sequence[float], place: int) -> float:
    """Of a sorted sequence, one element left out."""
    count = len(ordered) - 1
    if count == 0:
        return 1.0

    def element(index: int) -> float:
        return ordered[index if index < place else index + 1]

    return (element((count - 1) // 2) + element(count // 2)) / 2
