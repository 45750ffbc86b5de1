from celery import shared_task

from webapp.checkpoints import services


@shared_task(name="checkpoints.retain")
def retain() -> None:
    services.retain()
    services.sweep()
