from typing import Any

from django.http import HttpRequest

from webapp.jobs.models import Job
from webapp.registry import queries


def of_job(request: HttpRequest, job: Job) -> dict[str, Any]:
    """The team's model names, for the form that registers a checkpoint."""
    return {"models": queries.names(job.team_id)}
