from celery import shared_task

from webapp.datasets import following, registration


@shared_task(name="datasets.register")
def register(snapshot_id: str, step: int) -> None:
    registration.advance(snapshot_id, step)


@shared_task(name="datasets.check_source")
def check_source(snapshot_id: str) -> None:
    registration.check_source(snapshot_id)


@shared_task(name="datasets.continue_registrations")
def continue_registrations() -> None:
    registration.continue_all()


@shared_task(name="datasets.follow")
def follow() -> None:
    following.follow_all()
