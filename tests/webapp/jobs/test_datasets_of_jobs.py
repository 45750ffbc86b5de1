"""A job uses a dataset snapshot only for an approved purpose, and only where its person may see it."""

import io
from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.jobs.conftest import SPEC
from tests.webapp.jobs.test_pages import FORM
from webapp.accounts import permissions
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import LEADS, Rule
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.datasets import services as datasets
from webapp.jobs.models import Job
from webapp.nodes.models import Node

MISMATCH = (
    "The snapshot stdlib version 1 cannot be used: "
    "it is approved for eval, report, and the job&#x27;s purpose is train."
)
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def snapshot(owner: User, cluster: list[Node]) -> str:
    actor = actor_of(owner)
    upload = artifacts.start_upload(actor, "vision", "dataset", "stdlib")
    artifacts.receive_file(actor, upload.id, "data.bin", io.BytesIO(b"bytes"))
    manifest = artifacts.complete_upload(actor, upload.id)
    return str(datasets.add_snapshot(actor, "vision", "stdlib", manifest.id, "eval, report").id)


@pytest.mark.parametrize("path", ["training-jobs", "training-jobs/dry-run"])
def test_rest_refuses_another_purpose_and_names_both(
    path: str, snapshot: str, api: Callable[..., APIClient], owner: User
) -> None:
    mapping = {**SPEC, "dataset": snapshot, "purpose": "train"}
    answer = api(owner).post(f"/api/v1/{path}", mapping, format="json")
    assert answer.status_code == 422
    problem = {"field": "purpose", "sentence": MISMATCH.replace("&#x27;", "'")}
    assert answer.json()["problems"] == [problem]
    assert not Job.objects.exists()


def test_rest_takes_an_approved_purpose(snapshot: str, api: Callable[..., APIClient], owner: User) -> None:
    mapping = {**SPEC, "dataset": snapshot, "purpose": "report"}
    assert api(owner).post("/api/v1/training-jobs", mapping, format="json").status_code == 201


def test_the_form_refuses_another_purpose_beside_its_field(
    snapshot: str, browser: Callable[[User], Client], owner: User
) -> None:
    answer = browser(owner).post("/jobs/submit/", {**FORM, "dataset": snapshot, "purpose": "train"})
    assert answer.status_code == 422
    assert f'id="problem-purpose">{MISMATCH}' in answer.content.decode()
    assert not Job.objects.exists()


def test_the_form_takes_an_approved_purpose(
    snapshot: str, browser: Callable[[User], Client], owner: User
) -> None:
    answer = browser(owner).post("/jobs/submit/", {**FORM, "dataset": snapshot, "purpose": "eval"})
    assert answer.status_code == 302


def test_the_form_offers_only_snapshots_that_its_person_may_see(
    snapshot: str, browser: Callable[[User], Client], owner: User, lead: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(permissions.RULES, "dataset.view", Rule("see this dataset", LEADS))
    offered = '<option value="stdlib v1 of vision"></option>'
    assert offered in browser(lead).get("/jobs/submit/").content.decode()
    page = browser(owner).get("/jobs/submit/").content.decode()
    assert "stdlib" not in page
    assert "eval, report" not in page


def test_a_dataset_may_be_given_by_its_name(
    snapshot: str, browser: Callable[[User], Client], owner: User
) -> None:
    form = {**FORM, "dataset": "stdlib v1 of vision", "purpose": "eval"}
    assert browser(owner).post("/jobs/submit/", form).status_code == 302
    job = Job.objects.get()
    assert job.spec["dataset"] == snapshot
    clone = browser(owner).get(f"/jobs/submit/?clone={job.id}").content.decode()
    assert 'value="stdlib v1 of vision"' in clone


@pytest.mark.parametrize("path", ["training-jobs", "training-jobs/dry-run"])
def test_a_job_cannot_use_a_snapshot_that_its_person_may_not_see(
    path: str, snapshot: str, api: Callable[..., APIClient], owner: User, vision: Team,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setitem(permissions.RULES, "dataset.view", Rule("see this dataset", LEADS))
    mapping = {**SPEC, "dataset": snapshot, "purpose": "eval"}
    assert api(owner).post(f"/api/v1/{path}", mapping, format="json").status_code == 403
