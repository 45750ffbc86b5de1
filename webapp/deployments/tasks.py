from celery import shared_task

from webapp.deployments import coordination, rollouts


@shared_task(name="deployments.coordinate")
def coordinate() -> None:
    coordination.coordinate()
    rollouts.coordinate()
