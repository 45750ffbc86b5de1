"""What the pages and REST compare of runs: the configuration of each, and the value of each metric that counts."""

from collections.abc import Iterable
from typing import Any

from platform_core.experiments.comparison import Reported, judged
from platform_core.experiments.names import is_metric
from platform_core.experiments.sections import in_order
from webapp.experiments.models import Run

__all__ = ["config", "in_order", "metric_names", "reported", "value_of"]

# lineage that says how a run was made; what only tells runs apart by accident stays out
_LINEAGE = (
    "code", "dataset", "purpose", "seed", "command", "git_commit", "hardware", "resume_from", "reported_packages",
    "reported_hardware", "reported_python",
)  # fmt: skip
_RESOURCES = ("gpu_type", "priority", "preemptible", "environment")


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
