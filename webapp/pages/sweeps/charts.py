"""The charts of a sweep: the best value over time and over GPU-hours, curves of trials, parallel coordinates."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from platform_core.experiments.settings_table import Axis, axes, metric_axis
from platform_core.sweeps.states import Sweep, Trial, TrialState
from platform_core.units import HOUR_MS, MICRO_DOLLARS
from webapp.quotas.queries import JobCost
from webapp.sweeps import queries

MOST_CURVES = 24
CURVE_COLUMNS = 120


def finished(sweep: Sweep) -> list[Trial]:
    """The trials with a value that ran to their end, in the order in which they ended."""
    whole = [t for t in sweep.trials if t.state is TrialState.SUCCEEDED and t.value is not None]
    return sorted(whole, key=lambda trial: (trial.ended_ms or 0, trial.number))


def best_over_time(sweep: Sweep) -> dict[str, Any]:
    places = [((trial.ended_ms or 0) - sweep.created_ms) / 1000 for trial in finished(sweep)]
    return _best(sweep, {"kind": "elapsed", "title": "time"}, places)


def best_over_gpu_hours(sweep: Sweep, costs: Mapping[str, JobCost]) -> dict[str, Any]:
    """Over the GPU-hours of all trials that had ended by then, pruned ones included."""
    places = []
    for trial in finished(sweep):
        before = [t for t in sweep.trials if t.settled and (t.ended_ms or 0) <= (trial.ended_ms or 0)]
        used = sum(costs[t.job].gpu_ms for t in before if t.job in costs)
        places.append(used / HOUR_MS)
    return _best(sweep, {"kind": "value", "title": "GPU-hours", "key": "gpu_hours"}, places)


def _best(sweep: Sweep, x: dict[str, str], places: Sequence[float]) -> dict[str, Any]:
    """Steps: a best value stands until a trial with a better one ends."""
    objective = sweep.spec.objective
    values = [trial.value or 0.0 for trial in finished(sweep)]
    best: list[float] = []
    for value in values:
        best.append(value if not best or objective.better(value, best[-1]) else best[-1])
    corners = {
        "x": [at for at in places for _ in range(2)][1:],
        "y": [value for value in best for _ in range(2)][:-1],
    }
    series = {"name": "best so far", "key": objective.metric, "subject": "", **corners}
    return {"x": x, "y": {"title": objective.metric}, "series": [series] if values else [], "marks": []}


def cost_by_trial(sweep: Sweep, costs: Mapping[str, JobCost]) -> dict[str, Any]:
    """In dollars, a bar for each trial; one that is running costs more until it ends."""
    priced = [(trial.number, costs[trial.job].micro_dollars) for trial in sweep.trials if trial.job in costs]
    series = {
        "name": "cost",
        "key": "cost",
        "subject": "",
        "x": [number for number, _ in priced],
        "y": [dollars / MICRO_DOLLARS for _, dollars in priced],
        "low": [0.0] * len(priced),
    }
    return {
        "x": {"kind": "value", "title": "trial", "key": "trial", "whole": True},
        "y": {"title": "cost in $"},
        "series": [series] if priced else [],
        "marks": [],
        "points": True,
    }


def curves(sweep: Sweep) -> dict[str, Any]:
    """Of the newest trials that have begun; the number of the trial stands at the end of its line, with × if pruned."""
    begun = [trial for trial in sweep.trials if trial.started_ms is not None or trial.reports][-MOST_CURVES:]
    known = queries.curves(sweep, [trial.number for trial in begun], CURVE_COLUMNS)
    metric = sweep.spec.objective.metric
    series = [
        {
            "name": f"trial {number}",
            "letter": number,
            "key": metric,
            "subject": "",
            "x": known[trial.number][0],
            "y": known[trial.number][1],
        }
        for trial in begun
        if trial.number in known
        for number in [f"{trial.number}{' ×' if trial.state is TrialState.PRUNED else ''}"]
    ]
    return {"x": {"kind": "step", "title": "step"}, "y": {"title": metric}, "series": series, "marks": []}


def parameter_axes(trials: Sequence[Trial]) -> tuple[Axis, ...]:
    return axes([dict(trial.parameters) for trial in trials])


def parallel(sweep: Sweep) -> dict[str, Any] | None:
    """The values of static/js/parallel.js; the better a trial, the darker and the later it is drawn."""
    objective, whole = sweep.spec.objective, finished(sweep)
    trials = sorted(whole, key=lambda trial: objective.rank(trial.value or 0.0), reverse=True)
    if not trials:
        return None
    metric = metric_axis(objective.metric, [trial.value for trial in trials])
    lines = [
        {
            "id": f"trial-{trial.number}",
            "name": f"trial {trial.number}: {objective.metric} {trial.value:.4g}",
            "style": {"colour": 0},
            "share": round((place + 1) / len(trials), 3),
        }
        for place, trial in enumerate(trials)
    ]
    return {
        "axes": [asdict(axis) for axis in (*parameter_axes(trials), metric)],
        "result": metric.name,
        "runs": lines,
    }
