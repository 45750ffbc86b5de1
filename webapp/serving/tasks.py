from celery import shared_task

from webapp.serving import coordination


@shared_task(name="serving.coordinate")
def coordinate() -> None:
    coordination.coordinate()
