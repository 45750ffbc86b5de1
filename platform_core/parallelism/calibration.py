"""One constant a cluster, from measured steps, and what error is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from platform_core.units import plural


@dataclass(frozen=True, slots=True)
class Calibration:
    """`factor` multiplies predicted seconds; `low` and `high` bound measured / calibrated for nine steps of ten.

    Without measurements they are the bounds of the published figures in docs/explanation/parallelism.md.
    """

    factor: float = 1.0
    low: float = 0.9
    high: float = 1.5
    rows: int = 0

    @property
    def is_learnt(self) -> bool:
        return self.rows >= ENOUGH

    @property
    def sentence(self) -> str:
        """What the band of a step rests on."""
        if not self.is_learnt:
            seen = (
                f"{plural(self.rows, 'job')} of {ENOUGH} measured here"
                if self.rows
                else "no job measured here"
            )
            return f"not calibrated: {seen}; the band is that of published figures"
        band = f"{apart(self.low)} to {apart(self.high)}"
        return f"predictions times {self.factor:.2f}, learnt from {self.rows} jobs here; nine of ten within {band}"


ENOUGH = 5  # jobs, before a constant replaces the planner's own number
EXACT = 19  # jobs, from which on nine of ten of the next ones lie between two of those seen
MANY_TIMES = 10  # beyond, percentages say little


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


def learn(steps: Sequence[tuple[float, float]]) -> Calibration:
    """From (predicted, measured) of the jobs of one cluster; without enough of them the planner's own band.

    Of n jobs that are alike, the next one lies between the j-th from below and the j-th from above with a chance of
    (n + 1 - 2 j)/(n + 1) (order statistics; Vovk et al. 2005 call it conformal). With fewer than 19 that is less than
    nine of ten, so that the band is at least the one of the published figures.
    """
    count = len(steps)
    if count < ENOUGH:
        return Calibration(rows=count)
    ratios = sorted(measured / predicted for predicted, measured in steps)
    factor = median(ratios)
    drop = max(1, (count + 1) // 20)
    low, high = ratios[drop - 1] / factor, ratios[-drop] / factor
    if count < EXACT:
        unmeasured = Calibration()
        low, high = min(low, unmeasured.low), max(high, unmeasured.high)
    return Calibration(factor, low, high, count)


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


def apart(ratio: float) -> str:
    """How far two times are apart, in words."""
    if ratio >= MANY_TIMES:
        return f"{round(ratio):,} times as long"
    return f"{round(100 * (ratio - 1)):+d} %"
