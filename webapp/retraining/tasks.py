from celery import shared_task

from webapp.retraining import coordination


@shared_task(name="retraining.coordinate")
def coordinate() -> None:
    coordination.coordinate()
