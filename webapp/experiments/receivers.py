from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from platform_core.jobs.job import Job as JobValue
from platform_core.jobs.kind import JobKind
from platform_core.jobs.spec import JobSpec
from webapp.experiments import services
from webapp.experiments.models import Run
from webapp.metrics import services as metrics

if TYPE_CHECKING:
    from webapp.jobs.models import Job


def make_run(sender: Any, job: Job, spec: JobSpec, **kwargs: Any) -> None:
    """Each job is a run from the moment it is submitted; a service trains nothing and has none."""
    if spec.kind is not JobKind.SERVICE:
        services.make_run(job, spec)


def forget_points(sender: Any, instance: Run, **kwargs: Any) -> None:
    """The points of a run go with its row."""
    metrics.delete([instance.pk])


def follow_jobs(sender: Any, jobs: Sequence[JobValue], **kwargs: Any) -> None:
    """The state of a job's run is its job's."""
    services.follow_jobs(jobs)
