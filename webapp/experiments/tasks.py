from celery import shared_task

from webapp.base.identity import now_ms
from webapp.experiments import measures, predictions, retention, silence


@shared_task(name="experiments.measure")
def measure() -> None:
    measures.measure(now_ms())


@shared_task(name="experiments.end_silent_runs")
def end_silent_runs() -> None:
    silence.end_silent_runs()


@shared_task(name="experiments.compare_plans")
def compare_plans() -> None:
    predictions.compare()


@shared_task(name="experiments.remove_deleted")
def remove_deleted() -> None:
    retention.remove_deleted()
