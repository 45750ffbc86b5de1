"""Curves come sampled out of the database, and a page asks for them one chart at a time."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.experiments import metric_store, services
from webapp.experiments.metric_store import Curve, Point
from webapp.experiments.models import MetricPoint
from webapp.jobs.models import Job
from webapp.pages.experiments import charts

pytestmark = pytest.mark.usefixtures("cluster")

Browse = Callable[[User], Client]


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=1, name="bytelm")
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def report(job: Job, key: str, values: list[float]) -> None:
    points = [Point(key, step, value, 1_000_000 + 100 * step) for step, value in enumerate(values)]
    services.ingest(job.id, 1, points)


def curve(job: Job, most: int, key: str = "loss") -> Curve:
    return metric_store.sampled([job.id], key, most)[job.id]


CURVES = st.lists(st.floats(-1e6, 1e6) | st.sampled_from([1e308, -1e308, 5e-324]), min_size=1, max_size=120)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(CURVES, st.integers(4, 40))
def test_ends_and_extremes_stay_and_no_point_is_invented(job: Job, values: list[float], most: int) -> None:
    MetricPoint.objects.all().delete()
    report(job, "loss", values)
    thin = curve(job, most)
    assert len(thin.x) <= most
    assert thin.x == sorted(set(thin.x))
    assert [values[step] for step in thin.x] == thin.values
    assert (thin.x[0], thin.x[-1]) == (0, len(values) - 1)
    assert (min(thin.values), max(thin.values)) == (min(values), max(values))
    assert sum(thin.counts) == len(values)
    if len(values) <= most:
        assert thin == Curve(list(range(len(values))), values, values, [1] * len(values))


def test_a_single_spike_survives_among_thousands(job: Job) -> None:
    report(job, "loss", [99.0 if step == 7_777 else 1.0 for step in range(10_000)])
    thin = curve(job, 100)
    assert (7_777, 99.0) in zip(thin.x, thin.values, strict=True)
    assert max(thin.means) < 2


@pytest.fixture
def loss_of_5000_steps(job: Job) -> dict[str, Any]:
    report(job, "loss", [float(step % 7) for step in range(5_000)])
    return {"runs": job.id, "key": "loss"}


def test_the_compare_page_stays_small_and_names_the_address_of_its_curves(
    job: Job, owner: User, browser: Browse, loss_of_5000_steps: dict[str, Any]
) -> None:
    page = browser(owner).get("/experiments/compare/", {"runs": job.id, "smooth": "0.9"})
    assert len(page.content) < 30_000
    address = page.context["charts"][0]["url"]
    values = browser(owner).get(address).json()
    assert len(values["series"][0]["x"]) <= charts.MOST_POINTS
    assert values["series"][0]["x"][-1] == 4_999


def test_raw_and_smoothed_values_have_one_x(
    owner: User, browser: Browse, loss_of_5000_steps: dict[str, Any]
) -> None:
    [series] = browser(owner).get("/experiments/curves/", loss_of_5000_steps).json()["series"]
    assert [float(step % 7) for step in series["x"]] == series["y"]
    assert len(series["means"]) == len(series["counts"]) == len(series["x"])


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
    asked = {"runs": job.id, "key": "loss", "x": "time"}
    [series] = browser(owner).get("/experiments/curves/", asked).json()["series"]
    assert (series["x"], series["y"]) == ([1.5, 3.0, 9.0], [2.0, 1.0, 3.0])


@pytest.mark.parametrize("key", ["", "unknown"])
def test_a_metric_that_no_run_reports_is_not_found(key: str, job: Job, owner: User, browser: Browse) -> None:
    assert browser(owner).get("/experiments/curves/", {"runs": job.id, "key": key}).status_code == 404


def test_a_metric_without_a_chart_is_named_and_can_be_chosen(job: Job, owner: User, browser: Browse) -> None:
    points = [Point(f"layer/{number:02}", 1, 1.0, 1_000) for number in range(charts.MOST_CHARTS)]
    services.ingest(job.id, 1, [*points, Point("val/loss", 1, 2.0, 1_000)])
    for address in (f"/experiments/compare/?runs={job.id}", f"/jobs/{job.id}/"):
        text = browser(owner).get(address).content.decode()
        assert "Not drawn here:" in text
        assert f"?runs={job.id}&amp;metric=layer%2F{charts.MOST_CHARTS - 1}" in text
    chosen = browser(owner).get(f"/experiments/compare/?runs={job.id}&metric=layer/23")
    assert [chart["key"] for chart in chosen.context["charts"]] == ["layer/23"]


def test_the_metric_that_runs_are_judged_by_is_the_first_chart(
    job: Job, owner: User, browser: Browse
) -> None:
    named = ("perf/step_time", "train/loss", "val/f1", "val/loss")
    services.ingest(job.id, 1, [Point(key, 1, 1.0, 1_000) for key in named])
    page = browser(owner).get(f"/experiments/compare/?runs={job.id}")
    assert [chart["key"] for chart in page.context["charts"]][:2] == ["val/loss", "train/loss"]


def test_the_ranking_names_its_metric_and_goes_by_what_was_reached(
    submit: Callable[..., Job], owner: User, browser: Browse
) -> None:
    noisy, better = (submit(num_gpus=1, name=name) for name in ("noisy", "better"))
    report(noisy, "val/loss", [3.0, 0.9, 1.0])
    report(better, "val/loss", [3.0, 0.5, 1.1])
    report(better, "speed", [7.0])
    client, ids = browser(owner), f"{noisy.id},{better.id}"
    page = client.get("/experiments/compare/", {"runs": ids})
    assert "Ranking by lowest val/loss" in page.content.decode()
    assert [line["name"] for line in page.context["ranking"]] == ["better", "noisy"]
    finals = {
        row["name"]: (row["rule"], [value["best"] for value in row["values"]])
        for row in page.context["finals"]
    }
    assert finals == {"speed": ("last", [False, False]), "val/loss": ("lowest", [False, True])}
    chosen = client.get("/experiments/compare/", {"runs": ids, "metric": "speed"})
    assert "Ranking by last speed" in chosen.content.decode()
    assert [line["name"] for line in chosen.context["ranking"]] == ["better"]
