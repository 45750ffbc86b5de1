from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from webapp.registry import queries

if TYPE_CHECKING:
    from webapp.jobs.models import Job


def of_job(request: HttpRequest, job: Job) -> dict[str, Any]:
    """The team's model names, for the form that registers a checkpoint."""
    return {"models": lambda: queries.names(job.team_id)}
