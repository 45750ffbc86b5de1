from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_core.jobs.spec import JobSpec
from webapp.experiments import services

if TYPE_CHECKING:
    from webapp.jobs.models import Job


def make_run(sender: Any, job: Job, spec: JobSpec, **kwargs: Any) -> None:
    """Each job is a run from the moment it is submitted."""
    services.make_run(job, spec)
