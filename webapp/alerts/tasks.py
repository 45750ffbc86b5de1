from celery import shared_task

from webapp.alerts import evaluation, notices


@shared_task(name="alerts.evaluate")
def evaluate() -> None:
    evaluation.evaluate()


@shared_task(name="alerts.deliver")
def deliver() -> None:
    notices.deliver()
