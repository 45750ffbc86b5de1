from celery import shared_task

from webapp.serving import collecting, coordination, training


@shared_task(name="serving.coordinate")
def coordinate() -> None:
    coordination.coordinate()


@shared_task(name="serving.publish_collected")
def publish_collected() -> None:
    collecting.publish_due()


@shared_task(name="serving.read_training_reference")
def read_training_reference(version_id: str) -> None:
    training.read(version_id)
