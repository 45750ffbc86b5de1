from celery import shared_task

from webapp.monitoring import services


@shared_task(name="monitoring.sample")
def sample() -> None:
    services.sample()
