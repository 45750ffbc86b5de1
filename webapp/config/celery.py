"""The Celery application: its tasks, its logging, the time limits of programs without child processes."""

import os
import signal
from collections.abc import Iterator
from typing import Any

from billiard.exceptions import SoftTimeLimitExceeded
from celery import Celery
from celery.concurrency import solo
from celery.signals import setup_logging, task_postrun, task_prerun, worker_ready
from celery.worker import state
from django.conf import settings
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from webapp.base.exposition import expose
from webapp.config import queues

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

AGAIN_SECONDS = 5.0
app = Celery("trainmaster")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    broker_connection_max_retries=None,  # a worker outlives every outage of Valkey
    worker_prefetch_multiplier=1,  # a free process takes the next task of the next queue
    task_queues=queues.broker_queues(),  # a worker without --queues takes from all of them
    task_default_queue=queues.Queue.UPKEEP.value,
    task_routes=queues.routes(),
    task_annotations=queues.limits(),
)
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
def keep_limits(sender: Any = None, **_: Any) -> None:
    """Celery limits the tasks of child processes only; scheduler and coordinator carry out theirs themselves."""
    if isinstance(getattr(sender, "pool", None), solo.TaskPool):
        signal.signal(signal.SIGALRM, _over)
        task_prerun.connect(_limit, dispatch_uid="config.celery.limit")
        task_postrun.connect(_unlimited, dispatch_uid="config.celery.unlimited")


def _limit(task: Any = None, **_: Any) -> None:
    """Again every few seconds, for a task that goes on."""
    signal.setitimer(signal.ITIMER_REAL, getattr(task, "soft_time_limit", None) or 0, AGAIN_SECONDS)


def _unlimited(**_: Any) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


def _over(*_: Any) -> None:
    raise SoftTimeLimitExceeded


@worker_ready.connect
def expose_metrics(sender: Any = None, **_: Any) -> None:
    """Of the worker, in the process that gives tasks to the others, which knows them all."""
    if isinstance(getattr(sender, "pool", None), solo.TaskPool):
        return  # it may share its machine, and so its port, with the worker
    expose("TRAINMASTER_WORKER_METRICS_LISTEN", settings.WORKER_METRICS_LISTEN, _families)
