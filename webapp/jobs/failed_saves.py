"""Checkpoints that could not be written where their script runs."""

from django.db import transaction

from platform_core.jobs.events import CheckpointFailed
from platform_core.jobs.states import JobState
from webapp.events import queries as events
from webapp.jobs import services, transitions
from webapp.jobs.models import Job

COMPARED = 100  # the newest failed saves of a job, among which a repeated report is found


def not_saved(job_id: str, event: CheckpointFailed) -> None:
    """Told twice, it is one event; also where an earlier save has ended meanwhile, so that the job's state stays."""
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).get(id=job_id)
        if _is_told(event, job_id):
            return
        services.observe(job_id, event)
        if not _is_told(event, job_id):
            transitions.keep([(job, event, JobState(job.state))])


def _is_told(event: CheckpointFailed, job_id: str) -> bool:
    told = events.moments(type(event).__name__, f"job:{job_id}", COMPARED)
    return any((data["attempt"], data["step"]) == (event.attempt, event.step) for _, data in told)
