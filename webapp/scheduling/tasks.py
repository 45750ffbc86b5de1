from typing import Any

from celery import shared_task

from webapp.scheduling import predictions, services


@shared_task(name="scheduling.tick", bind=True, max_retries=10)
def tick(self: Any) -> None:
    if not services.tick():
        raise self.retry(
            countdown=0.2
        )  # a round is being planned; what asked for this one may have come too late for it


@shared_task(name="scheduling.predict")
def predict() -> None:
    predictions.predict()
