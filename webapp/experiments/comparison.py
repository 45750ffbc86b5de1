"""What the pages and REST compare of runs: the configuration of each, and the value of each metric that counts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.experiments.comparison import Reported, direction, headline, judged, rule_of
from platform_core.experiments.names import is_metric
from platform_core.experiments.sections import in_order
from webapp.experiments.models import Run

__all__ = [
    "BestRun", "best_run", "changed_ms", "config", "in_order", "metric_names", "ranked", "reported", "sort_key",
    "value_of",
]  # fmt: skip

# lineage that says how a run was made; what only tells runs apart by accident stays out
_LINEAGE = (
    "code", "dataset", "purpose", "seed", "command", "git_commit", "hardware", "resume_from", "reported_packages",
    "reported_hardware", "reported_python",
)  # fmt: skip
_RESOURCES = ("gpu_type", "priority", "preemptible", "environment")


@dataclass(frozen=True, slots=True)
class BestRun:
    run: Run
    metric: str
    rule: str  # see `rule_of`
    value: float


def config(run: Run) -> dict[str, Any]:
    """Parameters, lineage and resources of a run under one set of names."""
    lineage = {
        name.removeprefix("reported_"): run.lineage[name] for name in _LINEAGE if run.lineage.get(name)
    }
    return {**run.parameters, **lineage, **_resources(run)}


def _resources(run: Run) -> dict[str, Any]:
    return {name: run.job.spec[name] for name in _RESOURCES} if run.job else {}


def metric_names(runs: Iterable[Run]) -> list[str]:
    """The metrics that any of the runs has reported, what people look at first before the others; without those that
    the platform samples."""
    return in_order({key for run in runs for key in run.summaries if is_metric(key)})


def reported(run: Run) -> dict[str, Reported]:
    """The metrics that have had a finite value."""
    return {
        key: Reported(summary.last, summary.min, summary.max)
        for key, summary in run.summaries.items()
        if summary.min is not None and summary.max is not None
    }


def value_of(run: Run, key: str) -> float | None:
    """The value by which the run is judged, see `rule_of`."""
    values = reported(run).get(key)
    return None if values is None else judged(key, values)


def sort_key(metric: str, value: float | None) -> tuple[bool, float]:
    """Best first, or the greatest where the name does not say; runs without the metric last."""
    return (value is None, 0.0 if value is None else value if direction(metric) < 0 else -value)


def ranked(runs: Sequence[Run], key: str) -> list[tuple[float, Run]]:
    """The runs that have reported this metric with the value that counts, best first."""
    having = [(value, run) for run in runs if (value := value_of(run, key)) is not None]
    return sorted(having, key=lambda pair: (sort_key(key, pair[0]), pair[1].id))


def best_run(runs: Sequence[Run]) -> BestRun | None:
    """The best of the runs by their headline metric; None while none has reported one."""
    key = headline(metric_names(runs))
    ranking = ranked(runs, key)
    return BestRun(ranking[0][1], key, rule_of(key), ranking[0][0]) if ranking else None


def changed_ms(runs: Sequence[Run], created_ms: int) -> int:
    """When any of the runs last reported or ended; `created_ms` without runs."""
    return max((run.ended_ms or run.reported_ms or run.created_ms for run in runs), default=created_ms)
