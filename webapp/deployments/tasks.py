from celery import shared_task

from webapp.deployments import coordination
from webapp.deployments.rollout import switching


@shared_task(name="deployments.coordinate")
def coordinate() -> None:
    coordination.coordinate()
    switching.coordinate()
