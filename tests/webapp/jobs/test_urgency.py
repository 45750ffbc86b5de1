"""Who may give a job which priority: over REST, in a dry run, in the form, and where a priority is changed."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import SPEC
from webapp.accounts.models import User
from webapp.jobs.models import Job
from webapp.nodes.models import Node

Api = Callable[[User], APIClient]
Browser = Callable[[User], Client]
JOBS = "/api/v1/training-jobs"
FOR_MEMBERS = (
    "priority 20 is more urgent than 50, the most urgent that members of vision may use; "
    "ask a lead of vision, who may use 10 and less urgent ones, or a platform admin"
)
FOR_LEADS = (
    "priority 0 is more urgent than 10, the most urgent that leads of vision may use; ask a platform admin"
)

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/dry-run"])
def test_a_member_asks_for_a_priority_of_leads_and_is_refused_with_both_numbers(
    cast: Cast, api: Api, path: str
) -> None:
    answer = api(cast.member).post(path, {**SPEC, "priority": 20}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "priority_too_urgent")
    assert answer.json()["detail"] == FOR_MEMBERS
    assert not Job.objects.exists()
    assert api(cast.lead).post(path, {**SPEC, "priority": 20}, format="json").status_code in (200, 201)


def test_the_form_says_it_before_and_after_it_is_sent(cast: Cast, browser: Browser) -> None:
    form: dict[str, Any] = {**SPEC, "priority": "20", "strategy": "ddp", "max_runtime_hours": "1"}
    client = browser(cast.member)
    assert FOR_MEMBERS[1:] in client.post("/jobs/check/", form).content.decode()
    answer = client.post("/jobs/submit/", form)
    assert answer.status_code == 422
    assert FOR_MEMBERS[1:] in answer.content.decode()
    assert not Job.objects.exists()


def test_a_lead_may_not_make_a_job_as_urgent_as_an_admin_may(
    cast: Cast, api: Api, browser: Browser, submit: Callable[..., Job]
) -> None:
    job = submit()
    answer = api(cast.lead).patch(f"{JOBS}/{job.id}", {"priority": 0}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (403, FOR_LEADS)
    answer = browser(cast.lead).post(f"/queue/{job.id}/priority/", {"priority": "0"})
    assert answer.status_code == 403
    assert FOR_LEADS[1:] in answer.content.decode()
    assert Job.objects.get().priority == 50
    assert browser(cast.admin).post(f"/queue/{job.id}/priority/", {"priority": "0"}).status_code == 302
    assert Job.objects.get().priority == 0


def test_a_lead_may_make_any_job_less_urgent(cast: Cast, api: Api, submit: Callable[..., Job]) -> None:
    job = submit()
    Job.objects.update(priority=0)
    answer = api(cast.lead).patch(f"{JOBS}/{job.id}", {"priority": 5}, format="json")
    assert answer.json()["priority"] == 5


def test_an_operator_moves_the_limits(
    cast: Cast, api: Api, cluster: list[Node], settings: LazySettings
) -> None:
    settings.PRIORITY_OF_MEMBERS = settings.PRIORITY_OF_LEADS = 0
    assert api(cast.member).post(JOBS, {**SPEC, "priority": 0}, format="json").status_code == 201
