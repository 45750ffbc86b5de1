"""What ranks report becomes the efficiency of their run: over REST, on its page and on the command line."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.experiments import comparison, efficiency, queries
from webapp.jobs.models import Attempt, Job
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def job(submit: Submit) -> Job:
    job = submit(num_gpus=2)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def report(rank: int, second: int = 1, **values: float) -> None:
    named = {f"ranks/{rank}/{name}": value for name, value in values.items()}
    line = {"kind": "system", "at_ms": 1000 * second, "step": second, "values": named}
    spool.ingest(Attempt.objects.get(), "node-x", json.dumps(line).encode(), rank=rank)


def of(job: Job) -> efficiency.Efficiency:
    run = queries.run(job.id)
    assert run is not None
    return efficiency.of_run(run)


def test_a_run_that_reports_nothing_has_no_efficiency(job: Job) -> None:
    found = of(job)
    assert (found.breakdown, found.mfu, found.ranks, found.advice) == (None, None, (), ())


def test_all_ranks_count_and_the_rates_are_of_all_together(job: Job) -> None:
    report(0, 1, step_seconds=0.4, data_share=0.1, tokens_per_second=100.0)
    report(0, 2, step_seconds=0.6, data_share=0.3, tokens_per_second=100.0)
    report(1, 1, step_seconds=0.5, data_share=0.2, tokens_per_second=50.0)
    found = of(job)
    assert found.breakdown is not None
    assert found.breakdown.data == pytest.approx(0.2)
    assert (found.step_seconds, found.tokens_per_second) == (0.5, 150.0)
    assert [advice.code for advice in found.advice] == ["data_starved"]


def test_a_straggler_is_named_with_its_node(job: Job) -> None:
    report(0, step_seconds=0.5)
    report(1, step_seconds=0.9)
    found = of(job)
    [slow] = found.stragglers
    assert slow.rank == 1
    assert slow.node
    assert [advice.code for advice in found.advice] == ["imbalance"]


def test_series_of_ranks_are_no_metrics_and_no_progress(job: Job) -> None:
    report(0, step_seconds=0.5)
    run = queries.run(job.id)
    assert run is not None
    assert comparison.metric_names([run]) == []
    assert Job.objects.get(id=job.id).step is None


def test_the_page_shows_the_bar_and_the_advice(
    job: Job, cast: Cast, browser: Callable[[User], Client]
) -> None:
    client, address = browser(cast.viewer), f"/jobs/{job.id}/?tab=efficiency"
    assert "Nothing measured yet" in client.get(address).content.decode()
    report(0, step_seconds=0.25, data_share=0.3, mfu=0.41)
    shown = client.get(address).content.decode()
    assert "waiting for data <b>30.0 %</b>" in shown
    assert "The loader of data is too slow" in shown
    assert "41.0 %" in shown
    assert "ranks/0/step" in shown
    assert "ranks/0" not in client.get(f"/jobs/{job.id}/?tab=system").content.decode()


def test_rest_answers_with_all_of_it(job: Job, cast: Cast, api: Callable[[User], Any]) -> None:
    report(0, step_seconds=0.25, data_share=0.3)
    body = api(cast.viewer).get(f"/api/v1/runs/{job.id}/efficiency").json()
    assert body["breakdown"]["data"] == pytest.approx(0.3)
    assert body["ranks"][0]["own_seconds"] is None
    assert body["mfu_missing"].startswith("not measured")
    assert body["advice"][0]["code"] == "data_starved"


def test_an_mfu_beyond_the_hardware_is_shown_nowhere(
    job: Job, cast: Cast, api: Callable[[User], Any], browser: Callable[[User], Client]
) -> None:
    report(0, step_seconds=0.25, mfu=3.2)
    body = api(cast.viewer).get(f"/api/v1/runs/{job.id}/efficiency").json()
    assert (body["mfu"], body["mfu_missing"]) == (None, "not measured: the count exceeds the hardware")
    shown = browser(cast.viewer).get(f"/jobs/{job.id}/?tab=efficiency").content.decode()
    assert "the count exceeds the hardware" in shown
    assert "320" not in shown
