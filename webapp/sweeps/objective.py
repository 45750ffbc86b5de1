"""The values of trials: the one place that reads the metric of a sweep from the runs of its jobs."""

from collections.abc import Sequence

from platform_core.sweeps.definition import Choice, Goal, Objective
from webapp.metrics import queries as metrics


def points(run_id: str, metric: str, after_step: int = -1) -> list[tuple[int, float]]:
    """(step, value) in the order of the steps."""
    curve = metrics.points(run_id, [metric], after_step=after_step).get(metric)
    return [] if curve is None else list(zip(curve.steps, curve.values, strict=True))


def value_of(run_id: str, objective: Objective) -> tuple[float, int] | None:
    """The value of a trial and its step, None if the run never reported the metric."""
    summary = metrics.summaries([run_id], [objective.metric])[run_id].get(objective.metric)
    if summary is None:
        return None
    lowest = objective.goal is Goal.MINIMIZE
    value, step = (summary.min, summary.min_step) if lowest else (summary.max, summary.max_step)
    if objective.value is Choice.LAST or value is None or step is None:
        return summary.last, summary.last_step
    return value, step


def chosen(known: Sequence[tuple[int, float]], objective: Objective) -> tuple[int, float]:
    """The point of a curve that is the value of its trial."""
    if objective.value is Choice.LAST:
        return known[-1]
    return min(known, key=lambda point: (objective.rank(point[1]), point[0]))
