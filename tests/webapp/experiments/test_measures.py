"""Efficiency and cost of runs in their rows: measured, shown, sorted by, compared."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.experiments import measures
from webapp.experiments.models import Run
from webapp.jobs.models import Attempt, Job
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
SHOWN = (
    "column=name&column=mfu&column=step_seconds&column=data_wait&column=memory_bytes&column=tokens_per_second"
)


def report(job: Job, rank: int, second: int, **values: float) -> None:
    named = {f"ranks/{rank}/{name}": value for name, value in values.items()}
    line = {"kind": "system", "at_ms": 1000 * second, "step": second, "values": named}
    spool.ingest(Attempt.objects.get(job=job), "node-x", json.dumps(line).encode(), rank=rank)


@pytest.fixture
def jobs(submit: Submit) -> list[Job]:
    """The first uses its GPUs better than the second; the third has reported nothing."""
    jobs = [submit(name=name, num_gpus=2) for name in ("well-used", "ill-used", "silent")]
    tick()
    for job, mfu in zip(jobs[:2], (0.5, 0.1), strict=True):
        say(job, MemberPhase.RUNNING)
        for rank in (0, 1):
            report(
                job,
                rank,
                1,
                step_seconds=0.2,
                mfu=mfu,
                data_share=0.25,
                memory_bytes=2e9,
                tokens_per_second=50,
            )
            report(
                job,
                rank,
                2,
                step_seconds=0.4,
                mfu=mfu,
                data_share=0.25,
                memory_bytes=3e9,
                tokens_per_second=50,
            )
    say(jobs[2], MemberPhase.RUNNING)
    measures.measure(now_ms())
    return jobs


def of(job: Job) -> Run:
    return Run.objects.get(job=job)


def test_all_ranks_count_and_the_most_memory_at_any_time(jobs: list[Job]) -> None:
    run = of(jobs[0])
    assert (run.mfu, run.step_seconds, run.data_wait) == (0.5, pytest.approx(0.3), 0.25)
    assert (run.tokens_per_second, run.memory_bytes, run.gpu_type) == (100, 3e9, "cpu")
    assert run.gpu_ms is not None
    silent = of(jobs[2])
    assert (silent.mfu, silent.step_seconds, silent.memory_bytes) == (None, None, None)


def test_a_run_is_measured_for_good_once_its_last_report_has_come(jobs: list[Job]) -> None:
    say(jobs[0], MemberPhase.EXITED, 0)
    ended_ms = of(jobs[0]).ended_ms
    assert ended_ms is not None
    measures.measure(ended_ms + 1_000)
    assert not of(jobs[0]).measured
    measures.measure(ended_ms + measures.SETTLES_MS + 1)
    assert of(jobs[0]).measured
    assert measures.measure(ended_ms + measures.SETTLES_MS + 2) == 2  # those that go on


def test_a_filter_and_an_order_take_the_measures(
    jobs: list[Job], api: Callable[..., APIClient], owner: User
) -> None:
    def found(**query: str) -> list[str]:
        answer = api(owner).get("/api/v1/runs", {"team": "vision", **query})
        assert answer.status_code == 200, answer.content
        return [run["name"] for run in answer.json()["results"]]

    assert found(filter="mfu < 0.3") == ["ill-used"]
    assert found(filter="gpu_type = 'cpu' and memory_bytes > 1e9", order="mfu desc") == [
        "well-used",
        "ill-used",
    ]
    assert found(order="mfu asc")[-1] == "silent"
    [good] = (
        api(owner).get("/api/v1/runs", {"team": "vision", "filter": "name = 'well-used'"}).json()["results"]
    )
    assert good["efficiency"]["mfu"] == 0.5


def test_the_table_shows_them_as_columns_that_sort(
    jobs: list[Job], browser: Callable[[User], Client], owner: User
) -> None:
    experiment = of(jobs[0]).experiment_id
    page = browser(owner).get(f"/experiments/{experiment}/?{SHOWN}&order=mfu+desc").content.decode()
    assert page.index("well-used") < page.index("ill-used")
    for text in ("50 %", "0.3 s", "25 %", "Peak memory", "Tokens/s"):
        assert text in page, text
    grouped = browser(owner).get(f"/experiments/{experiment}/?{SHOWN}&group=gpu_type").content.decode()
    assert "0.3" in grouped


def test_compare_has_a_row_for_each_measure_that_is_known(
    jobs: list[Job], browser: Callable[[User], Client], owner: User
) -> None:
    ids = ",".join(job.id for job in jobs)
    page = browser(owner).get(f"/experiments/compare/?runs={ids}&view=table").content.decode()
    assert "MFU" in page
    assert "50.0%" in page
    assert "peak memory" in page
    assert "GPU utilisation" not in page
