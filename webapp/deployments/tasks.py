from celery import shared_task

from webapp.deployments import coordination


@shared_task(name="deployments.coordinate")
def coordinate() -> None:
    coordination.coordinate()
