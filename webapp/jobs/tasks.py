from celery import shared_task

from webapp.base.identity import now_ms
from webapp.jobs import logs, utilisation

FOLLOWERS_MS = 60_000  # whoever follows a log has read its end before it moves


@shared_task(name="jobs.archive_logs")
def archive_logs() -> None:
    logs.archive(now_ms() - FOLLOWERS_MS)


@shared_task(name="jobs.shorten_log")
def shorten_log(attempt_id: str, rank: int) -> None:
    logs.shorten(attempt_id, rank)


@shared_task(name="jobs.sample_utilisation")
def sample_utilisation() -> None:
    utilisation.sample()
