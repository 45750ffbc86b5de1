from celery import shared_task

from webapp.checkpoints import orders, services


@shared_task(name="checkpoints.retain")
def retain() -> None:
    services.retain()
    services.sweep()


@shared_task(name="checkpoints.set_intervals")
def set_intervals() -> None:
    orders.set_intervals()
