import os
from collections.abc import Iterator
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_ready
from celery.worker import state
from django.conf import settings
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from webapp.base.exposition import expose

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

app = Celery("trainmaster")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_logging(**_: Any) -> None:
    """Celery sets up no logging of its own where somebody listens: worker and beat log as the other processes do."""


def _families() -> Iterator[Metric]:
    """Of one worker with all its processes, as Celery counts them."""
    taken = CounterMetricFamily("trainmaster_worker_tasks", "Tasks that this worker took.", labels=("task",))
    for task, count in sorted(state.total_count.items()):
        taken.add_metric((task,), count)
    yield taken
    now = GaugeMetricFamily("trainmaster_worker_tasks_now", "Tasks it has now, by state.", labels=("state",))
    now.add_metric(("running",), len(state.active_requests))
    now.add_metric(("reserved",), len(state.reserved_requests) - len(state.active_requests))
    yield now


@worker_ready.connect
def expose_metrics(**_: Any) -> None:
    """In the process that gives tasks to the others, which knows them all."""
    expose("TRAINMASTER_WORKER_METRICS_LISTEN", settings.WORKER_METRICS_LISTEN, _families)
