from typing import Any

from platform_core.jobs.spec import JobSpec
from webapp.experiments import services
from webapp.jobs.models import Job


def make_run(sender: Any, job: Job, spec: JobSpec, **kwargs: Any) -> None:
    """Each job is a run from the moment it is submitted."""
    services.make_run(job, spec)
