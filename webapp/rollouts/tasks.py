from celery import shared_task

from webapp.rollouts import coordination


@shared_task(name="rollouts.coordinate")
def coordinate() -> None:
    coordination.coordinate()
