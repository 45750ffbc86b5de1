"""What experiments add to a job's page: its curves, its lineage and the way to its experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.experiments import queries
from webapp.pages.experiments import artifacts
from webapp.pages.runs import parts

if TYPE_CHECKING:
    from webapp.jobs.models import Job


def of_job(job: Job) -> dict[str, Any]:
    run = queries.run(job.id)
    if run is None:
        return {}
    return {
        "first_charts": lambda: parts.first_charts(run),
        "lineage": run.lineage,
        "artifacts": lambda: artifacts.listed(run),
        "run": {"id": run.id, "experiment_id": run.experiment_id, "experiment": run.experiment.name},
    }
