"""Whenever the platform takes a running job's slots, a receipt says what that cost and who caused it."""

import ast
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.jobs.events import CheckpointSaved
from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.architecture.rules.sources import ROOT, sources
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.jobs.services import Preemption
from webapp.nodes import services as clusters
from webapp.nodes.models import MaintenanceWindow, Node
from webapp.scheduling import queries
from webapp.scheduling.models import Receipt

Browser = Callable[[User], Client]


@pytest.fixture
def gang(cluster: list[Node], owner: User) -> Job:
    """It has run on all four nodes for an hour, and saved half an hour ago."""
    job = jobs.submit(actor_of(owner), {**SPEC, "name": "gang", "num_gpus": 8, "preemptible": True})[0]
    tick()
    say(job, MemberPhase.RUNNING)
    now = now_ms()
    Job.objects.filter(id=job.id).update(started_ms=now - HOUR_MS // 2 - MINUTE_MS)
    jobs.observe(job.id, CheckpointSaved(at_ms=now - HOUR_MS // 2, attempt=1, step=100, checkpoint="ckpt-1"))
    return job


def under_maintenance(by: User, *nodes: Node) -> None:
    begin_ms = now_ms() + HOUR_MS
    window = clusters.book_maintenance(
        actor_of(by), [node.id for node in nodes], begin_ms, begin_ms + HOUR_MS, "new disks"
    )
    MaintenanceWindow.objects.filter(id=window.pk).update(begin_ms=now_ms() - 1)


def the_receipt() -> Receipt:
    receipt = Receipt.objects.get()
    half = 8 * HOUR_MS // 2
    assert half < receipt.lost_gpu_ms < half + 8 * 3 * MINUTE_MS, "since it saved, and the resume"
    assert (receipt.team, receipt.for_job, receipt.for_team) == ("vision", "", "")
    return receipt


def test_a_spot_notice_leaves_one_with_the_node_and_who_gave_it(
    gang: Job, cluster: list[Node], admin: User
) -> None:
    clusters.give_notice(actor_of(admin), cluster[0].id, 120)
    receipt = the_receipt()
    assert (receipt.kind, receipt.node, receipt.by) == ("spot notice", "node-0", f"user:{admin.username}")


def test_a_notice_that_the_agent_heard_is_the_agents(gang: Job, cluster: list[Node]) -> None:
    for seconds in (120, 118):
        clusters.heard_notice(cluster[1].id, seconds)
    assert the_receipt().by == f"node:{cluster[1].id}"


def test_maintenance_leaves_one_with_who_booked_it_however_many_nodes_it_takes(
    gang: Job, cluster: list[Node], admin: User
) -> None:
    under_maintenance(admin, *cluster[:3])
    for _ in range(3):
        tick()
    receipt = the_receipt()
    assert (receipt.kind, receipt.by) == ("maintenance", f"user:{admin.username}")
    assert receipt.node in {node.hostname for node in cluster[:3]}


def test_a_drain_stops_nobody_so_it_leaves_none(gang: Job, cluster: list[Node]) -> None:
    clusters.drain(SYSTEM, cluster[0].id)
    tick()
    assert Job.objects.get(id=gang.id).stop == "none"
    assert not Receipt.objects.exists()


def test_one_that_may_not_be_stopped_runs_on_under_maintenance_without_one(
    gang: Job, cluster: list[Node], admin: User
) -> None:
    Job.objects.filter(id=gang.id).update(spec={**gang.spec, "preemptible": False})
    under_maintenance(admin, cluster[0])
    tick()
    assert not Receipt.objects.exists()


def test_one_that_was_stopped_twice_for_different_reasons_has_one(gang: Job, cluster: list[Node]) -> None:
    clusters.give_notice(SYSTEM, cluster[0].id, 120)
    clusters.give_notice(SYSTEM, cluster[1].id, 120)
    assert not jobs.preempt(gang.id, Preemption(StopKind.IDLE, "it idles"), now_ms())
    assert the_receipt().node == "node-0"


@pytest.mark.parametrize("kind", StopKind)
def test_whatever_the_reason_taking_the_slots_leaves_one(gang: Job, kind: StopKind) -> None:
    assert jobs.preempt(gang.id, Preemption(kind, "because"), now_ms())
    assert the_receipt().kind == kind


def test_nothing_else_asks_for_slots_back() -> None:
    """So no stop can be forgotten."""
    asks = [
        source.name
        for source in sources(ROOT, "webapp")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("PreemptRequested")
    ]
    assert asks == ["webapp/jobs/preemption.py"]


def test_the_team_finds_it_beside_its_costs_and_nobody_is_said_to_have_caused_it(
    gang: Job, cluster: list[Node], admin: User, owner: User, browser: Browser
) -> None:
    clusters.give_notice(actor_of(admin), cluster[0].id, 120)
    lost_gpu_ms = the_receipt().lost_gpu_ms
    page = browser(owner).get("/teams/vision/costs/").content.decode()
    assert f"Vision lost {round(lost_gpu_ms / 1000):,} GPU-seconds of work to preemption" in page
    assert "<td>node-0" in page
    assert f"by {admin.username}" in page
    assert "spot notice" in page
    assert set(queries.losses(0, now_ms() + 1)) == {("vision", "cpu")}


def test_everybody_finds_it_at_the_queue(
    gang: Job, cluster: list[Node], outsider: User, browser: Browser
) -> None:
    clusters.heard_notice(cluster[0].id, 120)
    page = browser(outsider).get("/queue/").content.decode()
    assert "<td>node-0" in page
    assert "by its agent" in page
    assert gang.id not in page
