from celery import shared_task

from webapp.deployments import services


@shared_task(name="deployments.coordinate")
def coordinate() -> None:
    services.coordinate()
