"""GPU time that was not used, by team, user and GPU type: page, CSV and REST."""

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.experiments import measures
from webapp.experiments.usage import uses
from webapp.jobs.models import Attempt, Job
from webapp.quotas.models import LedgerEntry
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")
Browse = Callable[[User], Client]


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    """It has held 2 slots for half an hour, a quarter busy."""
    job = submit(num_gpus=2, name="=idle")
    tick()
    say(job, MemberPhase.RUNNING)
    Job.objects.filter(id=job.id).update(busy_samples=100, busy_sum=25.0)
    LedgerEntry.objects.filter(job_id=job.id).update(started_ms=now_ms() - HOUR_MS // 2)
    values = {
        "ranks/0/mfu": 0.2,
        "ranks/1/mfu": 0.4,
        "ranks/0/step_seconds": 0.5,
        "ranks/1/step_seconds": 0.5,
    }
    line = {"kind": "system", "at_ms": 1000, "step": 1, "values": values}
    spool.ingest(Attempt.objects.get(), "node-x", json.dumps(line).encode())
    measures.measure(now_ms())
    return job


def test_a_job_has_its_gpu_time_and_how_well_it_was_used(job: Job) -> None:
    now = now_ms()
    [use] = uses(["vision"], now - HOUR_MS, now)
    assert (use.job, use.team, use.utilisation) == (job.id, "vision", 0.25)
    assert use.mfu == pytest.approx(0.3)
    assert use.gpu_ms == pytest.approx(HOUR_MS, rel=0.1)
    assert use.wasted_ms == pytest.approx(0.75 * use.gpu_ms, abs=1)
    assert uses(["nlp"], now - HOUR_MS, now) == []


def test_the_page_shows_groups_and_the_jobs_that_cause_it(job: Job, cast: Cast, browser: Browse) -> None:
    for by, key in (("team", "vision"), ("user", "alice"), ("gpu_type", job.gpu_type)):
        page = browser(cast.viewer).get(f"/efficiency/?by={by}").content.decode()
        assert f'<th scope="row">{key}</th>' in page
        assert f"/jobs/{job.id}/?tab=efficiency" in page
    assert job.id not in browser(cast.outsider).get("/efficiency/").content.decode()
    assert job.id in browser(cast.admin).get("/efficiency/").content.decode()


def test_the_csv_has_a_line_a_job_and_nothing_that_a_spreadsheet_computes(
    job: Job, cast: Cast, browser: Browse
) -> None:
    answer = browser(cast.viewer).get("/efficiency/?format=csv")
    [line] = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (line["job"], line["name"], line["utilisation"], line["mfu"]) == (
        job.id,
        "'=idle",
        "0.250",
        "0.300",
    )


def test_a_week_that_is_not_over_or_no_week_is_refused(cast: Cast, browser: Browse) -> None:
    assert browser(cast.viewer).get("/efficiency/?week=2999-W01").status_code == 400


def test_rest_sums_by_what_is_asked_for(job: Job, cast: Cast, api: Callable[[User], Any]) -> None:
    client = api(cast.viewer)
    [total] = client.get("/api/v1/efficiency?by=job&days=1").json()["results"]
    assert (total["key"], total["jobs"], total["utilisation"]) == (job.id, 1, 0.25)
    assert client.get("/api/v1/efficiency?by=moon").status_code == 400
    assert client.get("/api/v1/efficiency?days=0").status_code == 400


def test_a_team_sees_what_it_is_charged_and_an_admin_what_all_are(
    job: Job, cast: Cast, api: Callable[[User], Any], browser: Browse
) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    before = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    address = f"/api/v1/chargeback?from={before}&to={today}"
    first, of_team, whole = api(cast.viewer).get(address).json()["results"]
    assert (first["team"], first["gpu_type"], of_team["gpu_type"]) == ("vision", "cpu", "all")
    assert first["total"]["gpu_ms"] == whole["total"]["gpu_ms"] == pytest.approx(HOUR_MS, rel=0.1)
    assert whole["total"]["wasted_ms"] == pytest.approx(0.75 * HOUR_MS, rel=0.1)
    assert len(browser(cast.outsider).get(address).json()["results"]) == 1
    assert len(browser(cast.admin).get(address).json()["results"]) == 3
    assert api(cast.viewer).get("/api/v1/chargeback?month=2026").status_code == 400
    answer = browser(cast.viewer).get(f"/efficiency/chargeback/?month={today[:7]}")
    assert answer["Content-Type"].startswith("text/csv")
    assert f"chargeback-{today[:7]}.csv" in answer["Content-Disposition"]
    assert "vision,cpu" in answer.content.decode()
    assert "Chargeback by team" in browser(cast.viewer).get("/efficiency/").content.decode()
