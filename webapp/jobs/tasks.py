from celery import shared_task

from webapp.jobs import logs


@shared_task(name="jobs.archive_logs")
def archive_logs() -> None:
    logs.archive()
