from celery import shared_task

from webapp.metrics import services


@shared_task(name="metrics.compact")
def compact(subject: str) -> None:
    services.compact(subject)


@shared_task(name="metrics.sweep")
def sweep() -> None:
    services.sweep()


@shared_task(name="metrics.retain")
def retain() -> None:
    services.retain()
