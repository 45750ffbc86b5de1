"""What the scheduler adds to the page of a job."""

from typing import Any

from django.http import HttpRequest

from platform_core.jobs.states import WAITING
from webapp.live.identity import now_ms
from webapp.scheduling import queries


def of_job(request: HttpRequest, job: Any) -> dict[str, Any]:
    if job.state not in WAITING:
        return {}
    return {"should_start": lambda: queries.starts([job.id], now_ms()).get(job.id, "")}
