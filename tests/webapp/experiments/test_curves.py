"""Curves come sampled out of the database, and a page asks for them one chart at a time."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.experiments import services
from webapp.experiments.models import Run
from webapp.experiments.services import Point
from webapp.jobs.mapping import job_value
from webapp.jobs.models import Job

pytestmark = pytest.mark.usefixtures("cluster")

Browse = Callable[[User], Client]


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=1, name="bytelm")
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def series_of(client: Client, **query: Any) -> list[dict[str, Any]]:
    [chart] = client.get("/experiments/curves/", query).json()["charts"]
    return list(chart["series"])


def report(job: Job, key: str, values: list[float]) -> None:
    points = [Point(key, step, value, 1_000_000 + 100 * step) for step, value in enumerate(values)]
    services.ingest(job.id, 1, points)


def test_a_single_spike_survives_among_thousands(job: Job, owner: User, browser: Browse) -> None:
    report(job, "loss", [99.0 if step == 7_777 else 1.0 for step in range(10_000)])
    [series] = series_of(browser(owner), runs=job.id, key="loss")
    [place] = [place for place, value in enumerate(series["high"]) if value == 99.0]
    assert abs(series["x"][place] - 7_777) < 10_000 / 600
    assert (series["low"][place], sum(series["counts"])) == (1.0, 10_000)
    assert max(series["y"]) < 10


def test_runs_that_report_at_the_same_steps_share_their_columns_on_the_wire(
    submit: Callable[..., Job], owner: User, browser: Browse
) -> None:
    jobs = [submit(num_gpus=1, name=name) for name in ("one", "two", "late")]
    for job, first in zip(jobs, (0, 0, 50), strict=True):
        points = [Point("loss", step, float(step), step) for step in range(first, 10_000)]
        services.ingest(job.id, 1, points)
    runs = ",".join(job.id for job in jobs)
    one, two, late = series_of(browser(owner), runs=runs, key="loss", columns="100")
    assert (two["x"], two["counts"]) == (0, 0)
    assert len(one["x"]) == len(two["y"]) == len(late["x"]) == 100
    assert late["x"] != one["x"]


def test_the_newest_value_of_a_sampled_curve_is_no_mean(job: Job, owner: User, browser: Browse) -> None:
    report(job, "loss", [float(step) for step in range(10_000)])
    [series] = series_of(browser(owner), runs=job.id, key="loss", columns="100")
    assert series["last"] == 9_999
    assert series["y"][-1] < 9_999


def test_a_window_shows_each_point_that_the_whole_curve_hides(job: Job, owner: User, browser: Browse) -> None:
    report(job, "loss", [float(step) for step in range(10_000)])
    asked = {"runs": job.id, "key": "loss", "columns": "100", "from": "5000", "to": "5049.5"}
    [series] = series_of(browser(owner), **asked)
    assert (series["x"][0], series["x"][-1], len(series["x"])) == (5_000, 5_050, 51)
    assert series["y"] == [float(step) for step in range(5_000, 5_051)]


def test_values_that_are_not_finite_are_kept_and_break_no_chart(
    job: Job, owner: User, browser: Browse
) -> None:
    report(job, "loss", [math.nan, 1.0, math.inf])
    [series] = series_of(browser(owner), runs=job.id, key="loss")
    assert (series["x"], series["y"], series["gaps"]) == ([1], [1.0], [0, 2])
    summary = Run.objects.get(id=job.id).summaries["loss"]
    assert (summary.count, summary.non_finite, summary.min) == (3, 2, 1.0)
    for page in (f"/jobs/{job.id}/", f"/experiments/compare/?runs={job.id}"):
        assert browser(owner).get(page).status_code == 200


@pytest.fixture
def loss_of_5000_steps(job: Job) -> dict[str, Any]:
    report(job, "loss", [float(step % 7) for step in range(5_000)])
    return {"runs": job.id, "key": "loss"}


def test_the_compare_page_stays_small_and_names_the_address_of_its_curves(
    job: Job, owner: User, browser: Browse, loss_of_5000_steps: dict[str, Any]
) -> None:
    page = browser(owner).get("/experiments/compare/", {"runs": job.id, "smooth": "0.9"})
    assert len(page.content) < 30_000
    address = f"{page.context['curves']}&key=loss"
    assert f'data-curves="{escape(page.context["curves"])}"' in page.content.decode()
    [values] = browser(owner).get(address).json()["charts"]
    assert len(values["series"][0]["x"]) <= 600
    assert values["series"][0]["x"][-1] == 4_999


def test_the_columns_of_a_curve_have_one_x_each(
    owner: User, browser: Browse, loss_of_5000_steps: dict[str, Any]
) -> None:
    [series] = series_of(browser(owner), **loss_of_5000_steps)
    assert series["x"] == sorted(set(series["x"]))
    assert (min(series["low"]), max(series["high"])) == (0.0, 6.0)
    assert {len(series[name]) for name in ("y", "low", "high", "counts")} == {len(series["x"])}


def test_a_browser_that_has_the_values_is_told_so_until_more_are_reported(
    job: Job, owner: User, browser: Browse, loss_of_5000_steps: dict[str, Any]
) -> None:
    client = browser(owner)
    first = client.get("/experiments/curves/", loss_of_5000_steps, HTTP_ACCEPT_ENCODING="gzip")
    assert first["Content-Encoding"] == "gzip"
    again = client.get("/experiments/curves/", loss_of_5000_steps, HTTP_IF_NONE_MATCH=first["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    report(job, "loss", [1.0])  # a later attempt replaces a step without a change of the summary
    changed = client.get("/experiments/curves/", loss_of_5000_steps, HTTP_IF_NONE_MATCH=first["ETag"])
    assert changed.status_code == 200


def test_time_since_the_start_orders_the_points_by_their_time(job: Job, owner: User, browser: Browse) -> None:
    origin = Job.objects.get(id=job.id).started_ms or 0
    points = [
        Point("loss", step, float(step), origin + ms) for step, ms in ((1, 3_000), (2, 1_500), (3, 9_000))
    ]
    services.ingest(job.id, 1, points)
    [series] = series_of(browser(owner), runs=job.id, key="loss", x="time")
    assert (series["x"], series["y"]) == ([1.5, 3.0, 9.0], [2.0, 1.0, 3.0])


def test_time_counts_from_the_first_attempt(job: Job) -> None:
    Run.objects.filter(id=job.id).update(started_ms=None)
    value = job_value(job, None, [])
    for started_ms in (1_000, None, 9_000):  # placed, waiting again, placed again
        services.follow_jobs([replace(value, started_ms=started_ms)])
    assert Run.objects.get(id=job.id).started_ms == 1_000


@pytest.mark.parametrize("key", ["", "unknown"])
def test_a_metric_that_no_run_reports_is_not_found(key: str, job: Job, owner: User, browser: Browse) -> None:
    assert browser(owner).get("/experiments/curves/", {"runs": job.id, "key": key}).status_code == 404


def test_the_overview_of_a_job_draws_the_first_metrics_and_its_charts_draw_all(
    job: Job, owner: User, browser: Browse
) -> None:
    services.ingest(job.id, 1, [Point(f"layer/{number:02}", 1, 1.0, 1_000) for number in range(30)])
    client = browser(owner)
    overview = client.get(f"/jobs/{job.id}/").content.decode()
    assert overview.count("data-metric=") == 5
    assert "Show all 30 charts" in overview
    charts = client.get(f"/jobs/{job.id}/", {"tab": "charts"}).content.decode()
    assert charts.count("data-metric=") == 30
    assert 'data-find-charts="run-charts"' in charts
