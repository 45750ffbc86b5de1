"""Profiles of running jobs are ordered by page and REST, and reach the nodes."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.node.wanted import ProfileOrder
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.jobs.models import Job, Member
from webapp.jobs.profiles import KEPT, all_ranks
from webapp.rpc.wanted import wanted_states

pytestmark = pytest.mark.usefixtures("cluster")
Api = Callable[[User], Any]


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=2)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def at_nodes(job: Job) -> list[tuple[ProfileOrder, ...]]:
    nodes = Member.objects.filter(attempt__job=job).values_list("node_id", flat=True)
    return [attempt.profiles for state in wanted_states(list(nodes)) for attempt in state.attempts]


def test_orders_reach_every_node_one_after_another(job: Job, cast: Cast, api: Api) -> None:
    assert set(at_nodes(job)) == {()}
    address = f"/api/v1/training-jobs/{job.id}/profile"
    answer = api(cast.owner).post(address, {"steps": 5, "ranks": [1, 0, 1]}, format="json")
    assert answer.json() == {"kind": "trace", "number": 1, "steps": 5, "ranks": [0, 1]}
    assert set(at_nodes(job)) == {(ProfileOrder(1, 5, (0, 1)),)}
    assert api(cast.owner).post(address, {}, format="json").json()["number"] == 2
    assert set(at_nodes(job)) == {(ProfileOrder(1, 5, (0, 1)), ProfileOrder(2, 20, (0,)))}
    for _ in range(KEPT):
        api(cast.owner).post(address, {}, format="json")
    [kept] = set(at_nodes(job))
    assert [order.number for order in kept] == list(range(3, KEPT + 3))


def test_the_button_says_where_the_profile_will_be(
    job: Job, cast: Cast, browser: Callable[[User], Client]
) -> None:
    client = browser(cast.owner)
    assert "Profile 20 steps" in client.get(f"/jobs/{job.id}/").content.decode()
    page = client.post(f"/jobs/{job.id}/profile/", follow=True).content.decode()
    assert "2 of 2 ranks record their next 20 steps." in page
    assert set(at_nodes(job)) == {(ProfileOrder(1, 20, (0, 1)),)}


@pytest.mark.parametrize(
    ("count", "ranks"), [(1, [0]), (3, [0, 1, 2]), (16, list(range(16))), (64, list(range(0, 64, 4)))]
)
def test_a_large_job_is_sampled_evenly(count: int, ranks: list[int]) -> None:
    assert all_ranks(count) == ranks


@pytest.mark.parametrize("kind", ["memory", "flame"])
def test_the_menu_orders_other_kinds_of_any_rank(
    kind: str, job: Job, cast: Cast, browser: Callable[[User], Client]
) -> None:
    page = browser(cast.owner).post(f"/jobs/{job.id}/profile/", {"kind": kind, "rank": "1"}, follow=True)
    assert "Rank 1 records its next 20 steps." in page.content.decode()
    assert set(at_nodes(job)) == {(ProfileOrder(1, 20, (1,), kind),)}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"kind": "x-ray"}, "kind"),
        ({"ranks": [2]}, "the ranks 0 to 1, not 2"),
        ({"steps": 0}, "steps"),
        ({"ranks": []}, "ranks"),
    ],
)
def test_what_makes_no_sense_is_refused(
    body: dict[str, Any], why: str, job: Job, cast: Cast, api: Api
) -> None:
    answer = api(cast.owner).post(f"/api/v1/training-jobs/{job.id}/profile", body, format="json")
    assert answer.status_code == 400
    assert why in answer.content.decode()


def test_a_job_that_waits_cannot_be_profiled(submit: Callable[..., Job], cast: Cast, api: Api) -> None:
    answer = api(cast.owner).post(f"/api/v1/training-jobs/{submit().id}/profile", {}, format="json")
    assert answer.status_code == 400
    assert "it must be running" in answer.content.decode()
