from celery import shared_task

from webapp.serving import coordination, training


@shared_task(name="serving.coordinate")
def coordinate() -> None:
    coordination.coordinate()


@shared_task(name="serving.read_training_reference")
def read_training_reference(version_id: str) -> None:
    training.read(version_id)
