"""Early stopping: which trial is not worth its GPUs, by the values of all trials at the same step (a rung).

A trial is judged once at each rung, when it reaches it, and never waits for others (Li et al. 2020, "A System for
Massively Parallel Hyperparameter Tuning").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from platform_core.sweeps.definition import EarlyStopping, Objective, Rule
from platform_core.sweeps.states import Trial

_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples spread evenly over the unit interval


def next_rung(stopping: EarlyStopping, number: int, after: int) -> int | None:
    """The first step after this one at which the trial is judged; None without early stopping."""
    if stopping.rule is Rule.NONE:
        return None
    if stopping.rule is Rule.MEDIAN:
        interval = stopping.interval_steps or stopping.min_steps
        passed = max(0, after - stopping.min_steps + interval) // interval
        return stopping.min_steps + passed * interval
    rung = stopping.min_steps * stopping.eta ** bracket(stopping, number)
    while rung <= after:
        rung *= stopping.eta
    return rung if not stopping.max_steps or rung < stopping.max_steps else None


def reached(
    stopping: EarlyStopping, number: int, after: int, points: Iterable[tuple[int, float]]
) -> list[tuple[int, float]]:
    """The rungs that a curve has reached: each with the first value at its step or later."""
    reports: list[tuple[int, float]] = []
    rung = next_rung(stopping, number, after)
    for step, value in points:
        while rung is not None and step >= rung:
            reports.append((rung, value))
            rung = next_rung(stopping, number, rung)
    return reports


def bracket(stopping: EarlyStopping, number: int) -> int:
    """Hyperband starts trials in brackets, each with a later first rung; early brackets get more of the trials."""
    if stopping.rule is not Rule.HYPERBAND:
        return 0
    count = int(math.log(stopping.max_steps / stopping.min_steps, stopping.eta) + 1e-9) + 1
    weights = [math.ceil(count * stopping.eta**left / (left + 1)) for left in reversed(range(count))]
    place = number * _GOLDEN % 1 * sum(weights)
    for index, weight in enumerate(weights):
        place -= weight
        if place < 0:
            return index
    return count - 1


def verdict(stopping: EarlyStopping, objective: Objective, trial: Trial, others: Sequence[Trial]) -> str:
    """Why the trial is pruned at the rung that it reported last; '' while it may go on."""
    if stopping.rule is Rule.NONE or not trial.reports:
        return ""
    rung, value = trial.reports[-1]
    if math.isnan(value):
        return f"its {objective.metric} at step {rung} is not a number"
    rivals = [other for other in others if other.number != trial.number]
    if stopping.rule is Rule.MEDIAN:
        return _below_median(stopping, objective, trial, rivals)
    same = (other for other in rivals if bracket(stopping, other.number) == bracket(stopping, trial.number))
    at_rung = [values[rung] for other in same if rung in (values := dict(other.reports))]
    ranks = sorted(objective.rank(each) for each in (*at_rung, value))
    kept = max(1, len(ranks) // stopping.eta)
    if objective.rank(value) <= ranks[kept - 1]:
        return ""
    place = ranks.index(objective.rank(value)) + 1
    return (
        f"its {objective.metric} of {value:.4g} at step {rung} is number {place} of {len(ranks)} trials; "
        f"the best {f'{kept} go' if kept > 1 else 'goes'} on"
    )


def _below_median(
    stopping: EarlyStopping, objective: Objective, trial: Trial, rivals: Sequence[Trial]
) -> str:
    rung, _ = trial.reports[-1]
    at_rung = [values[rung] for other in rivals if rung in (values := dict(other.reports))]
    finite = [value for value in at_rung if not math.isnan(value)]
    if len(finite) < stopping.startup_trials:
        return ""
    best = min((value for _, value in trial.reports), key=objective.rank)
    middle = median(finite)
    if not objective.better(middle, best):
        return ""
    return (
        f"its best {objective.metric} of {best:.4g} up to step {rung} is worse than {middle:.4g}, "
        f"the median of {len(finite)} trials"
    )
