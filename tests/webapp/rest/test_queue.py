"""The queue over REST shows every waiting job, and the jobs of other teams without their names."""

import re
from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import tick
from webapp.accounts.models import Team
from webapp.accounts.queries import actor_of
from webapp.jobs import services
from webapp.jobs.models import Job
from webapp.quotas.models import Quota

QUEUE = "/api/v1/queue"
Api = Callable[..., APIClient]

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def waiting(submit: Callable[..., Job]) -> Job:
    """The third of three jobs of four GPUs, in a cluster of eight."""
    Quota.objects.update(maximum=16)
    for name in ("first", "second"):
        submit(name=name)
    last = submit(name="third", priority=90)
    tick()
    tick()
    return last


def test_an_entry_says_what_waits_why_and_until_when(waiting: Job, cast: Cast, api: Api) -> None:
    [entry] = api(cast.viewer).get(QUEUE).json()["results"]
    assert (entry["position"], entry["job"], entry["name"]) == (1, waiting.id, "third")
    assert (entry["gpus"], entry["gpu_type"], entry["team"], entry["user"]) == (4, "cpu", "vision", "alice")
    assert re.search("hold 4 for (first|second) ", entry["reason"]), "jobs are named, not numbered"
    assert entry["expected_start"].startswith("in ")
    assert entry["earliest_ms"] > waiting.submitted_ms


def test_another_team_sees_its_size_only(waiting: Job, cast: Cast, api: Api) -> None:
    [entry] = api(cast.outsider, "nlp").get(QUEUE).json()["results"]
    assert (entry["job"], entry["name"], entry["user"], entry["reason"]) == ("", "a job of vision", "", "")
    assert (entry["gpus"], entry["position"]) == (4, 1)


def test_names_of_other_teams_jobs_stay_out_of_the_reasons(
    waiting: Job,
    cast: Cast,
    api: Api,
    admin_api: Callable[..., APIClient],
    quota: Callable[..., Quota],
    nlp: Team,
) -> None:
    quota(nlp)
    mapping = {"name": "secret", "team": "nlp", "command": "python a.py", "gpu_type": "cpu"}
    services.submit(actor_of(cast.outsider), mapping)
    tick()
    assert "secret" not in api(cast.owner).get(QUEUE).content.decode()
    assert "secret" in admin_api(cast.admin).get(QUEUE).content.decode()


def test_a_limit_that_is_none_is_refused(waiting: Job, cast: Cast, api: Api) -> None:
    assert len(api(cast.owner).get(QUEUE, {"limit": "1"}).json()["results"]) == 1
    for limit in ("0", "501", "x"):
        assert api(cast.owner).get(QUEUE, {"limit": limit}).status_code == 400
