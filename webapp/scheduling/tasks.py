from typing import Any

from celery import shared_task

from webapp.scheduling import predictions, services, what_if


@shared_task(name="scheduling.tick", bind=True, max_retries=10)
def tick(self: Any) -> None:
    if services.tick() or self.request.retries >= self.max_retries:
        return  # a round that holds the lease for longer than all retries is followed by the beat's own
    # A round is being planned; what asked for this one may have come too late for it.
    raise self.retry(countdown=0.2)


@shared_task(name="scheduling.predict")
def predict() -> None:
    predictions.predict()


@shared_task(name="scheduling.answer")
def answer(question_id: int) -> None:
    what_if.answer(question_id)
