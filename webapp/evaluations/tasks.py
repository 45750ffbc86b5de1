from celery import shared_task

from webapp.evaluations import coordination


@shared_task(name="evaluations.coordinate")
def coordinate() -> None:
    coordination.coordinate()
