"""A job is found by its id, its name or the beginning of its id."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast, with_token
from webapp.accounts.models import Team
from webapp.accounts.queries import actor_of
from webapp.jobs import services
from webapp.jobs.models import Job
from webapp.quotas.models import Quota


def made(cast: Cast, name: str, team: str = "vision") -> Job:
    person = cast.outsider if team == "nlp" else cast.owner
    mapping = {"name": name, "team": team, "command": "python a.py", "gpu_type": "cpu"}
    return services.submit(actor_of(person), mapping)[0]


def resolve(client: APIClient, reference: str) -> tuple[int, dict[str, Any]]:
    answer = client.get("/api/v1/training-jobs/resolve", {"job": reference})
    return answer.status_code, answer.json()


@pytest.fixture
def owner_api(cast: Cast, vision: Team, nlp: Team, quota: Callable[..., Quota]) -> APIClient:
    quota(vision)
    quota(nlp)
    return with_token(cast.owner)


def renamed(job: Job, job_id: str) -> str:
    """A job with nothing that refers to it may take another id."""
    Job.objects.filter(id=job.id).delete()
    job.id = job_id
    job.save(force_insert=True)
    return job_id


def test_the_newest_of_several_jobs_with_the_name_is_meant(cast: Cast, owner_api: APIClient) -> None:
    older = made(cast, "toy-8")
    newer = made(cast, "toy-8")
    Job.objects.filter(id=newer.id).update(submitted_ms=older.submitted_ms + 1)
    assert resolve(owner_api, "toy-8")[1]["id"] == newer.id
    assert resolve(owner_api, "vision/toy-8")[1]["id"] == newer.id
    assert resolve(owner_api, older.id)[1]["id"] == older.id


def test_a_beginning_of_one_id_is_enough(cast: Cast, owner_api: APIClient) -> None:
    job = made(cast, "toy")
    digits = job.id.removeprefix("job-")
    assert resolve(owner_api, f"job-{digits[:8]}")[1]["id"] == job.id
    assert resolve(owner_api, digits[:8])[1]["id"] == job.id


def test_a_beginning_of_several_ids_is_refused_with_the_candidates(cast: Cast, owner_api: APIClient) -> None:
    first, second = (
        renamed(made(cast, name), f"job-zz{index}0000000000000") for index, name in ((1, "one"), (2, "two"))
    )
    status, problem = resolve(owner_api, "zz")
    assert (status, problem["code"]) == (409, "ambiguous_job")
    assert "zz may be any of " in problem["detail"]
    assert f"vision/one ({first})" in problem["detail"]
    assert f"vision/two ({second})" in problem["detail"]


def test_a_name_in_two_teams_is_refused_with_both(
    cast: Cast, owner_api: APIClient, admin_api: Callable[..., APIClient]
) -> None:
    mine, other = made(cast, "toy"), made(cast, "toy", team="nlp")
    status, problem = resolve(admin_api(cast.admin), "toy")
    assert (status, problem["code"]) == (409, "ambiguous_job")
    assert f"nlp/toy ({other.id}), vision/toy ({mine.id})" in problem["detail"]
    assert resolve(admin_api(cast.admin), "nlp/toy")[1]["id"] == other.id


def test_jobs_of_other_teams_neither_match_nor_make_a_name_ambiguous(
    cast: Cast, owner_api: APIClient
) -> None:
    mine, other = made(cast, "toy"), made(cast, "toy", team="nlp")
    assert resolve(owner_api, "toy")[1]["id"] == mine.id
    for reference in (other.id, "nlp/toy", other.id[:-1]):
        status, problem = resolve(owner_api, reference)
        assert (status, problem["detail"]) == (404, f"There is no job {reference} you may see")


@pytest.mark.parametrize("reference", ["", "job-", "nothing like it", "%", "x" * 500, "/", "vision/"])
def test_what_names_no_job_is_not_found(cast: Cast, owner_api: APIClient, reference: str) -> None:
    made(cast, "toy")
    assert resolve(owner_api, reference)[0] == 404


def test_a_name_that_looks_like_another_jobs_id_does_not_take_its_place(
    cast: Cast, owner_api: APIClient
) -> None:
    job = made(cast, "toy")
    made(cast, job.id)
    assert resolve(owner_api, job.id)[1]["name"] == "toy"
