from celery import shared_task

from webapp.metrics import services


@shared_task(name="metrics.compact")
def compact(subject: str) -> None:
    services.compact(subject)
