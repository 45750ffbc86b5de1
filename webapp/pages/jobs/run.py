"""What experiments add to a job's page: its curves, its lineage and the way to its experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.experiments import queries
from webapp.experiments.comparison import metric_names
from webapp.pages.experiments import artifacts, charts

if TYPE_CHECKING:
    from webapp.jobs.models import Job


def of_job(job: Job) -> dict[str, Any]:
    run = queries.run(job.id)
    if run is None:
        return {}
    return {
        "charts": lambda: charts.of_runs([run], metric_names([run])[: charts.MOST_CHARTS]),
        "not_drawn": lambda: charts.elsewhere([run], metric_names([run])[charts.MOST_CHARTS :]),
        "lineage": run.lineage,
        "artifacts": lambda: artifacts.listed(run),
        "run": {"id": run.id, "experiment_id": run.experiment_id, "experiment": run.experiment.name},
    }
