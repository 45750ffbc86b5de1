"""System series of an attempt stand beside the metrics of its script."""

import json
from collections.abc import Callable

import pytest

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.experiments import comparison, reports
from webapp.experiments.models import Run
from webapp.jobs.models import Attempt, Job
from webapp.metrics import queries as metrics
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def report(kind: str, step: int, **values: float) -> None:
    line = {"kind": kind, "at_ms": 1000 * step, "step": step, "values": values}
    spool.ingest(Attempt.objects.get(), "node-x", json.dumps(line).encode())


def test_a_sample_is_no_progress_of_the_script(job: Job) -> None:
    report("metrics", 3, loss=1.0)
    report("system", 1_795_464_905, **{"system/gpu0/utilisation": 0.5})
    assert Job.objects.get(id=job.id).step == 3
    assert "system/gpu0/utilisation" in metrics.keys([job.id])


def test_system_series_do_not_count_against_the_names_of_a_script(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{reports.__name__}.METRIC_NAMES", 2)
    monkeypatch.setattr(f"{reports.__name__}.SYSTEM_NAMES", 3)
    report("system", 1, **{f"system/gpu{number}/utilisation": 0.5 for number in range(5)})
    report("metrics", 1, loss=1.0, lr=0.1, third=1.0)
    system = [f"system/gpu{number}/utilisation" for number in range(3)]
    assert sorted(metrics.keys([job.id])) == ["loss", "lr", *system]


def test_system_series_are_not_among_the_metrics_that_are_compared(job: Job) -> None:
    report("system", 1, **{"system/host/memory_bytes": 5.0})
    report("metrics", 1, loss=1.0)
    assert comparison.metric_names([Run.objects.get(id=job.id)]) == ["loss"]
