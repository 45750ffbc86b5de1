"""Suites and evaluations on the page, over REST and on the command line."""

import json
from collections.abc import Callable

from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.evaluations.conftest import job_of, measured, run_of, suite_file
from webapp.accounts.models import User
from webapp.evaluations.models import Suite
from webapp.registry.models import ModelVersion

Api = Callable[[User], APIClient]
Browser = Callable[[User], Client]
Candidate = Callable[..., ModelVersion]


def test_a_suite_is_published_and_run_over_rest(
    cast: Cast, candidate: Candidate, held_out: str, api: Api
) -> None:
    version, lena, bob = candidate(), api(cast.lead), api(cast.member)
    fields = suite_file(held_out, command="evaluate.py --all")
    made = lena.post("/api/v1/evaluation-suites", fields, format="json")
    assert (made.status_code, made.json()["version"], made.json()["author"]) == (201, 2, "lena")
    assert lena.post("/api/v1/evaluation-suites", fields, format="json").status_code == 200
    wrong = lena.post("/api/v1/evaluation-suites", {**fields, "metrics": {}, "gpu_type": ""}, format="json")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "suite_invalid")
    assert {problem["field"] for problem in wrong.json()["problems"]} == {"metrics", "gpu_type"}
    [newest] = bob.get("/api/v1/evaluation-suites").json()["results"]
    assert (newest["name"], newest["version"], newest["metrics"]) == ("held-out", 2, {"accuracy": "higher"})
    kept = bob.get("/api/v1/evaluation-suites/vision/held-out").json()["results"]
    assert [row["version"] for row in kept] == [2, 1]
    runs = "/api/v1/models/vision/bytelm/versions/1/evaluation-runs"
    asked = bob.post(runs, {"suite": "held-out"}, format="json")
    assert (asked.status_code, asked.json()["state"], asked.json()["asked_by"]) == (201, "waiting", "bob")
    assert bob.post(runs, {"suite": "held-out"}, format="json").status_code == 200
    job = measured(version)
    first, second = bob.get(runs).json()["results"]
    assert (first["state"], first["job"], first["suite_version"]) == ("done", job.id, 2)
    assert (second["asked_by"], second["suite_version"]) == (None, 1)
    standing = bob.get("/api/v1/models/vision/bytelm/versions/1/gate").json()
    [row] = standing["evaluations"]
    assert (row["measured_by"], row["job"], row["suite_version"]) == ("server", job.id, 2)
    approval = "/api/v1/models/vision/bytelm/versions/1/approval"
    assert lena.put(f"{approval}?evidence={'0' * 64}").status_code == 409
    given = lena.put(f"{approval}?evidence={standing['evidence']}").json()["approvals"]
    assert given[0]["evidence"] == standing["evidence"]


def test_the_page_has_an_evaluation_run_and_shows_what_became_of_it(
    cast: Cast, candidate: Candidate, browser: Browser
) -> None:
    version, bob = candidate(), browser(cast.member)
    address = "/models/vision/bytelm/"
    page = bob.get(address).content.decode()
    assert "results count when the server has measured them" in page
    assert "held-out v1" in page
    assert ">waiting</span>" in page
    job = job_of(version)
    page = bob.get(address).content.decode()
    assert f'<a href="/jobs/{job.id}/">{job.id}</a>' in page
    measured(version)
    page = bob.get(address).content.decode()
    assert ">done</span>" in page
    assert f'<a href="/jobs/{job.id}/">the server</a>' in page
    assert "its data was not compared with the training data: no job of this platform made bytelm v1" in page
    page = bob.post(f"{address}1/evaluate/", {"suite": "held-out"}, follow=True).content.decode()
    assert "The server evaluates version 1 by held-out v1." in page
    assert run_of(version).number == 2
    page = bob.post(f"{address}1/evaluate/", {"suite": "held-out"}, follow=True).content.decode()
    assert "by held-out v1 already." in page


def test_an_approval_of_results_that_have_gone_is_refused_on_the_page(
    cast: Cast, candidate: Candidate, browser: Browser
) -> None:
    version, lena = candidate(), browser(cast.lead)
    measured(version)
    stale = lena.post("/models/vision/bytelm/1/approve/", {"evidence": "0" * 64}, follow=True)
    assert "has changed" in stale.content.decode()
    assert not version.approvals.exists()


def test_a_lead_publishes_a_suite_on_the_page_and_keeps_what_was_refused(
    cast: Cast, suite: Suite, held_out: str, browser: Browser
) -> None:
    lena = browser(cast.lead)
    page = lena.get("/models/suites/").content.decode()
    assert "held-out v1" in page
    assert "Publish a suite" in page
    assert "Publish a suite" not in browser(cast.member).get("/models/suites/").content.decode()
    refused = lena.post("/models/suites/publish/", {"file": '{"name": "held-out"}'})
    assert refused.status_code == 422
    assert "etrics must name 1 to 64 metrics" in refused.content.decode()
    assert "{&quot;name&quot;: &quot;held-out&quot;}</textarea>" in refused.content.decode()
    assert "is not JSON" in lena.post("/models/suites/publish/", {"file": "{"}).content.decode()
    text = json.dumps(suite_file(held_out, num_gpus=2))
    page = lena.post("/models/suites/publish/", {"file": text}, follow=True).content.decode()
    assert "held-out v2 is published." in page
    again = lena.post("/models/suites/publish/", {"file": text}, follow=True).content.decode()
    assert "held-out v2 is the newest version already." in again
