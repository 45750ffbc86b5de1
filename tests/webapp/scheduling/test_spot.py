"""Spot nodes: who is placed there, and what happens when the cloud takes one away."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import description
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes import services as clusters
from webapp.nodes.models import Node

Browser = Callable[[User], Client]


@pytest.fixture
def spot(cluster: list[Node]) -> Node:
    """The first node; the others belong to somebody else."""
    clusters.mark(SYSTEM, cluster[0].id, labels={"spot": "yes"})
    for each in cluster[2:]:
        clusters.mark(SYSTEM, each.id, taints=["theirs"])
    return cluster[0]


def submit(who: User, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "num_gpus": 2, **changes})[0]


def node_of(job: Job) -> str:
    attempt = Attempt.objects.get(job=job, number=Job.objects.get(id=job.id).attempt)
    return Member.objects.get(attempt=attempt).node_id


def stop_of(job: Job) -> str:
    return Job.objects.get(id=job.id).stop


def test_only_preemptible_jobs_go_to_spot_nodes(spot: Node, cluster: list[Node], owner: User) -> None:
    first, second = submit(owner), submit(owner)
    tick()
    tick()
    assert (state(first), node_of(first), state(second)) == ("scheduled", cluster[1].id, "pending")
    assert "which it does not tolerate" in Job.objects.get(id=second.id).wait_sentence
    movable = submit(owner, preemptible=True)
    tick()
    assert (state(movable), node_of(movable)) == ("scheduled", spot.id)


def test_an_operator_can_open_spot_nodes_to_every_job(spot: Node, owner: User, settings: Any) -> None:
    settings.SPOT_PREEMPTIBLE_ONLY = False
    both = submit(owner), submit(owner)
    tick()
    assert [state(job) for job in both] == ["scheduled", "scheduled"]


def test_a_notice_moves_every_job_and_the_node_takes_nothing_new(
    spot: Node, cluster: list[Node], owner: User, settings: Any
) -> None:
    settings.SPOT_PREEMPTIBLE_ONLY = False
    fixed, other = submit(owner), submit(owner)
    tick()
    say(fixed, MemberPhase.RUNNING)
    say(other, MemberPhase.RUNNING)
    there = next(job for job in (fixed, other) if node_of(job) == spot.id)
    clusters.give_notice(SYSTEM, spot.id, 120)
    assert Node.objects.get(id=spot.id).state == "draining"
    assert sorted(stop_of(job) for job in (fixed, other)) == ["none", "preempt"]
    clusters.mark(SYSTEM, cluster[2].id, taints=[])
    say(there, MemberPhase.EXITED, 0)
    tick()
    assert (state(there), node_of(there)) == ("scheduled", cluster[2].id)


def test_a_job_that_could_not_save_in_time_goes_on_elsewhere_too(
    spot: Node, cluster: list[Node], owner: User
) -> None:
    movable = submit(owner, preemptible=True, node_labels={"spot": "yes"})
    tick()
    say(movable, MemberPhase.RUNNING)
    clusters.give_notice(SYSTEM, spot.id, 120)
    Node.objects.filter(id=spot.id).update(state="lost")
    jobs.node_lost(spot.id, now_ms())
    assert state(movable) == "preempted"


def test_the_word_of_the_agent_counts_once(spot: Node, owner: User) -> None:
    for seconds in (120, 117, 114):
        clusters.heard_notice(spot.id, seconds)
    event = Event.objects.get(kind="NodeNoticed")
    assert (event.actor, event.cause) == (f"node:{spot.id}", "spot notice: it goes in 2 min")


def test_a_node_that_calls_after_it_was_to_go_takes_work_again(spot: Node, cast: Any) -> None:
    clusters.give_notice(SYSTEM, spot.id, 120)
    clusters.hello(spot.id, description("node-0"))
    assert Node.objects.get(id=spot.id).state == "draining"
    Node.objects.filter(id=spot.id).update(leaving_ms=now_ms() - 1)
    clusters.hello(spot.id, description("node-0"))
    back = Node.objects.get(id=spot.id)
    assert (back.state, back.leaving_ms, back.state_reason) == (
        "ready",
        None,
        "resumed by system: it is back after its notice",
    )


def test_a_lost_one_that_comes_back_too(spot: Node, cast: Any) -> None:
    clusters.give_notice(SYSTEM, spot.id, 0)
    Node.objects.filter(id=spot.id).update(state="lost", last_seen_ms=now_ms() - 60_000)
    clusters.hello(spot.id, description("node-0"))
    assert Node.objects.get(id=spot.id).state == "ready"


def test_over_rest_and_from_the_page(spot: Node, admin: User, browser: Browser) -> None:
    rest = APIClient()
    rest.force_login(admin)
    assert rest.post(f"/api/v1/nodes/{spot.id}/notice", {"seconds": -1}, format="json").status_code == 400
    page = browser(admin).get(f"/nodes/{spot.id}/").content.decode()
    assert "Report spot interruption" in page
    assert browser(admin).post(f"/nodes/{spot.id}/notice/").status_code == 302
    assert rest.post(f"/api/v1/nodes/{spot.id}/notice", {"seconds": 30}, format="json").status_code == 202
    left_ms = (Node.objects.get(id=spot.id).leaving_ms or 0) - now_ms()
    assert 0 < left_ms <= 30_000
    (told,) = [each for each in rest.get("/api/v1/nodes").json()["results"] if each["id"] == spot.id]
    assert (told["spot"], told["state"]) == (True, "draining")
    assert "Spot interruption" in browser(admin).get(f"/nodes/{spot.id}/").content.decode()
