"""The charts of a sweep: the best value over time and over GPU-hours, curves of trials, parallel coordinates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from platform_core.sweeps.definition import SweepSpec
from platform_core.sweeps.space import Dimension, DimensionKind
from platform_core.sweeps.states import Sweep, Trial, TrialState
from platform_core.units import HOUR_MS
from webapp.quotas.queries import JobCost
from webapp.sweeps import queries

MOST_CURVES = 24
CURVE_COLUMNS = 120
WIDE, HIGH = 640, 220


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
    objective, values, best = sweep.spec.objective, [], None
    trials = finished(sweep)
    for trial in trials:
        assert trial.value is not None  # finished() has seen to it
        best = trial.value if best is None or objective.better(trial.value, best) else best
        values.append(best)
    rising = list(places)
    series = [
        {"name": "best so far", "key": objective.metric, "subject": "", "x": rising, "y": values},
        {
            "name": "trial",
            "key": objective.metric,
            "subject": "",
            "x": rising,
            "y": [t.value for t in trials],
        },
    ]
    return {"x": x, "y": {"title": objective.metric}, "series": series if trials else [], "marks": []}


def curves(sweep: Sweep) -> dict[str, Any]:
    """Of the newest trials that have begun; a pruned one ends in a mark and says so in its name."""
    begun = [trial for trial in sweep.trials if trial.started_ms is not None or trial.reports][-MOST_CURVES:]
    known = queries.curves(sweep, [trial.number for trial in begun], CURVE_COLUMNS)
    metric = sweep.spec.objective.metric
    series = [
        {
            "name": f"trial {trial.number}{' ×' if trial.state is TrialState.PRUNED else ''}",
            "key": metric,
            "subject": "",
            "x": known[trial.number][0],
            "y": known[trial.number][1],
        }
        for trial in begun
        if trial.number in known
    ]
    return {"x": {"kind": "step", "title": "step"}, "y": {"title": metric}, "series": series, "marks": []}


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    x: float
    top: str
    bottom: str


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    points: str  # of a polyline
    opacity: float
    best: bool
    title: str


@dataclass(frozen=True, slots=True)
class Parallel:
    axes: list[Axis]
    lines: list[Line]
    wide: int = WIDE
    high: int = HIGH


def parallel(sweep: Sweep) -> Parallel | None:
    """One line for each finished trial through its parameters to its value; the better, the darker."""
    trials = finished(sweep)
    if not trials:
        return None
    objective, spec = sweep.spec.objective, sweep.spec
    values = [trial.value for trial in trials if trial.value is not None]
    low, high = min(values), max(values)
    names = [dimension.name for dimension in spec.space] + [objective.metric]
    gap = (WIDE - 80) / max(1, len(names) - 1)
    axes = [_axis(spec, name, 40 + index * gap, low, high) for index, name in enumerate(names)]
    order = sorted(trials, key=lambda trial: objective.rank(trial.value or 0.0), reverse=True)
    lines = []
    for place, trial in enumerate(order):
        heights = [_height(dimension, dict(trial.parameters)) for dimension in spec.space]
        heights.append(_share(trial.value or 0.0, low, high))
        points = " ".join(
            f"{axis.x:.0f},{_y(height):.0f}"
            for axis, height in zip(axes, heights, strict=True)
            if height is not None
        )
        best = place == len(order) - 1
        opacity = round(0.15 + 0.6 * (place + 1) / len(order), 2)
        title = f"trial {trial.number}: {objective.metric} {trial.value:.4g}"
        lines.append(Line(trial.number, points, 1.0 if best else opacity, best, title))
    return Parallel(axes, lines)


def _axis(spec: SweepSpec, name: str, x: float, low: float, high: float) -> Axis:
    dimension = next((d for d in spec.space if d.name == name), None)
    if dimension is None:
        return Axis(name, x, f"{high:.4g}", f"{low:.4g}")
    if dimension.kind is DimensionKind.CHOICE:
        return Axis(name, x, str(dimension.values[-1])[:14], str(dimension.values[0])[:14])
    return Axis(name, x, f"{dimension.high:g}", f"{dimension.low:g}")


def _height(dimension: Dimension, parameters: Mapping[str, Any]) -> float | None:
    """0 at the bottom of the axis, 1 at its top; None where the trial does not have the parameter."""
    value = parameters.get(dimension.name)
    if value is None:
        return None
    if dimension.kind is DimensionKind.CHOICE:
        return (
            dimension.values.index(value) / max(1, len(dimension.values) - 1)
            if value in dimension.values
            else 0.5
        )
    if dimension.logarithmic:
        return _share(log(value), log(dimension.low), log(dimension.high))
    return _share(value, dimension.low, dimension.high)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _y(height: float) -> float:
    return 24 + (1 - height) * (HIGH - 60)
