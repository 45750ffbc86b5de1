"""Experiments are listed with their best run, and runs are compared, over REST."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from webapp.base.identity import now_ms
from webapp.experiments import services
from webapp.experiments.services import Point
from webapp.jobs.models import Job

Api = Callable[..., APIClient]
COMPARE = "/api/v1/experiments/compare"

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def runs(submit: Callable[..., Job]) -> list[Job]:
    """Two rates; the loss of the second is the lower one."""
    jobs = [submit(name=f"rate-{lr}", experiment="rates", hyperparameters={"lr": lr}) for lr in (0.1, 0.2)]
    for job, loss in zip(jobs, (2.0, 1.5), strict=True):
        services.ingest(job.id, 1, [Point("loss", 1, 9.0, now_ms()), Point("loss", 2, loss, now_ms())])
    return jobs


def test_differing_settings_and_final_metrics_stand_side_by_side(
    runs: list[Job], cast: Cast, api: Api
) -> None:
    body: dict[str, Any] = api(cast.viewer).get(COMPARE, {"jobs": ",".join(run.id for run in runs)}).json()
    assert [run["name"] for run in body["runs"]] == ["rate-0.1", "rate-0.2"]
    assert body["differences"] == [{"name": "lr", "values": [0.1, 0.2]}]
    assert body["metrics"] == [{"name": "loss", "rule": "lowest", "values": [2.0, 1.5], "best": 1}]


def test_a_run_of_another_team_is_not_compared(runs: list[Job], cast: Cast, api: Api) -> None:
    answer = api(cast.outsider, "nlp").get(COMPARE, {"jobs": runs[0].id})
    assert (answer.status_code, answer.json()["detail"]) == (404, f"There is no run {runs[0].id} you may see")


@pytest.mark.parametrize("jobs", ["", ",", ",".join(f"job-{number}" for number in range(21))])
def test_no_run_and_too_many_are_refused_with_the_limit(cast: Cast, api: Api, jobs: str) -> None:
    answer = api(cast.owner).get(COMPARE, {"jobs": jobs})
    assert answer.status_code == 400
    assert "1 to 20 jobs" in answer.json()["detail"]


def test_an_experiment_names_its_best_run(runs: list[Job], cast: Cast, api: Api) -> None:
    [line] = api(cast.viewer).get("/api/v1/experiments", {"search": "rate"}).json()["results"]
    assert (line["name"], line["team"], line["runs"], line["active"]) == ("rates", "vision", 2, 0)
    best = {"job": runs[1].id, "name": "rate-0.2", "metric": "loss", "rule": "lowest", "value": 1.5}
    assert line["best"] == best
    assert api(cast.viewer).get("/api/v1/experiments", {"search": "none"}).json()["results"] == []
    assert api(cast.outsider, "nlp").get("/api/v1/experiments").json()["results"] == []
