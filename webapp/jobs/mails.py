"""Mails to the owner of a job. They quote nothing that its script wrote, which may hold secrets."""

from collections.abc import Sequence
from datetime import UTC, datetime

from django.conf import settings
from django.urls import reverse

from platform_core.units import DAY_MS, plural
from webapp.accounts import mailing
from webapp.accounts.mailing import Kind, Letter
from webapp.jobs.models import Job


def idles(job: Job, warning: str, at_ms: int) -> None:
    """At most once a day (UTC) for each job, however often it pauses."""
    key = f"idle:{job.id}:{at_ms // DAY_MS}"
    mailing.write([_letter(job, key, Kind.IDLE, f"slots of {job.name} idle", warning, at_ms)])


def taken_off(job: Job, idled: str, for_team: str, at_ms: int) -> None:
    text = (
        f"{idled[:1].upper()}{idled[1:]}, and a job of {for_team} is pending for such slots: it releases them. "
        "It may save first, is queued again, and resumes from its last checkpoint."
    )
    key = f"taken-off:{job.id}:{job.attempt}"
    mailing.write([_letter(job, key, Kind.IDLE, f"{job.name} lost its idle slots", text, at_ms)])


def failed(jobs: Sequence[tuple[Job, int, int]]) -> None:
    """Each job with its number of restarts and the time of its last failure."""
    mailing.write([_of_failure(*failure) for failure in jobs])


def _of_failure(job: Job, restarts: int, at_ms: int) -> Letter:
    after = f" after {plural(restarts, 'restart')}" if restarts else ""
    text = f"It failed{after} and is not restarted. Its page has the reason, the log and the checkpoints."
    return _letter(job, f"failed:{job.id}", Kind.FAILURES, f"{job.name} has failed", text, at_ms)


def _letter(job: Job, key: str, kind: Kind, subject: str, sentences: str, at_ms: int) -> Letter:
    at = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    page = f"{settings.PUBLIC_URL}{reverse('jobs:detail', args=[job.id])}"
    text = f"{job.name} of {job.team_id}, {at}\n\n{sentences}\n\n{page}\n"
    return Letter(key, job.user_id, job.team_id, kind, f"Trainmaster: {subject}", text)
