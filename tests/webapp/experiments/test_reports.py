"""What clients submit and scripts report beyond reason is left out; what is stored breaks no page."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.world import job_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.events.queries import story
from webapp.experiments import reports, services
from webapp.experiments.models import Run
from webapp.experiments.services import Point
from webapp.jobs import services as jobs
from webapp.metrics import queries as metrics

Api = Callable[..., APIClient]
Browser = Callable[[User], Client]


@pytest.fixture
def run(cast: Cast, quota: Any, teams: Any) -> Run:
    quota(teams[0])
    job, _ = jobs.submit(actor_of(cast.owner), job_mapping(), lineage={"git_diff": "a\nb"})
    return Run.objects.get(id=job.id)


BAD = [
    {"git_diff": 5},
    {"reported_packages": 5},
    {"git_commit": ["x"]},
    {"submitted_from": {"a": 1}},
    {"x" * 61: "x"},
]


@pytest.mark.parametrize("lineage", BAD)
def test_lineage_of_another_shape_is_refused_at_the_door(
    cast: Cast, api: Api, run: Run, lineage: Any
) -> None:
    answer = api(cast.owner).post(
        "/api/v1/training-jobs", {**job_mapping(), "lineage": lineage}, format="json"
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "request_invalid")


@pytest.mark.parametrize(
    "lineage", [*BAD, {"git_diff": {"a": {}}}, {"reported_hardware": [1]}, {"reported_seed": {}}]
)
def test_lineage_that_an_older_platform_kept_breaks_no_page(
    cast: Cast, browser: Browser, api: Api, run: Run, lineage: Any
) -> None:
    Run.objects.filter(id=run.id).update(lineage=lineage)
    for page in (
        f"/jobs/{run.id}/",
        f"/experiments/{run.experiment_id}/",
        f"/experiments/compare/?runs={run.id}",
    ):
        assert browser(cast.owner).get(page).status_code == 200, page
    assert api(cast.owner).get(f"/api/v1/training-jobs/{run.id}").status_code == 200


def test_a_body_nested_hundreds_of_levels_deep_is_a_bad_request(cast: Cast, api: Api) -> None:
    body = '{"lineage": ' + "[" * 900 + "]" * 900 + "}"
    answer = api(cast.owner).post("/api/v1/training-jobs", body, content_type="application/json")
    assert (answer.status_code, "nested too deeply" in answer.json()["detail"]) == (400, True)


def test_lists_of_jobs_do_not_carry_their_diffs(cast: Cast, api: Api, run: Run) -> None:
    (listed,) = api(cast.owner).get("/api/v1/training-jobs").json()["results"]
    assert "lineage" not in listed
    assert api(cast.owner).get(f"/api/v1/training-jobs/{run.id}").json()["lineage"] == {"git_diff": "a\nb"}


@pytest.mark.parametrize("said", [{"packages": 5}, {"params": [1]}, {"hardware": {"a": 1}}, {"seed": 10**30}])
def test_a_report_that_does_not_fit_is_left_out_and_told(
    cast: Cast, browser: Browser, run: Run, said: Any
) -> None:
    services.describe_run(run.id, {**said, "python": "3.11"})
    run.refresh_from_db()
    assert run.lineage["reported_python"] == "3.11"
    (event,) = [event for event in story(f"job:{run.id}") if event.kind == "ReportLeftOut"]
    assert next(iter(said)) in event.cause
    assert browser(cast.owner).get(f"/jobs/{run.id}/").status_code == 200


def test_a_run_has_so_many_metrics_and_says_once_that_more_are_left_out(
    cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "METRIC_NAMES", 3)
    for step in range(3):
        services.ingest(run.id, 1, [Point(f"m{n}", step, 1.0, 1) for n in range(6)])
    assert metrics.keys([run.id]) == ["m0", "m1", "m2"]
    (event,) = [event for event in story(f"job:{run.id}") if event.kind == "ReportLeftOut"]
    assert "3 metrics" in event.cause
    assert "m3" in event.cause


def test_the_metrics_of_a_run_are_read_in_as_many_queries_as_those_of_another(
    cast: Cast, api: Api, run: Run
) -> None:
    client, address = api(cast.owner), f"/api/v1/training-jobs/{run.id}/metrics"

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        return len(captured)

    services.ingest(run.id, 1, [Point("loss", 1, 1.0, 1)])
    queries()  # the first use of the token is written down
    few = queries()
    services.ingest(run.id, 1, [Point(f"m{n}", 1, 1.0, 1) for n in range(50)])
    assert queries() == few
    assert len(client.get(address).json()["series"]) == 51
