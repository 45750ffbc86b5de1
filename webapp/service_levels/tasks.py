from celery import shared_task

from webapp.service_levels import measuring


@shared_task(name="service_levels.measure")
def measure() -> None:
    measuring.measure()
