from celery import shared_task

from webapp.sweeps import coordination


@shared_task(name="sweeps.coordinate")
def coordinate() -> None:
    coordination.coordinate()
