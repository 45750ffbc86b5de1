"""Of two leaders only the newer one writes: whatever a round of the old one meets, it changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.jobs.job import MemberPhase
from platform_core.units import DAY_MS, HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base import lease
from webapp.base.identity import now_ms
from webapp.base.lease import Leadership
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes import liveness
from webapp.nodes import services as clusters
from webapp.nodes.models import MaintenanceWindow, Node, Slot
from webapp.scheduling import services as scheduling
from webapp.scheduling.models import Prediction, Receipt, Round

pytestmark = pytest.mark.usefixtures("cluster")
Situation = Callable[[list[Node], Job], None]


def rows() -> list[Any]:
    tables = (Node, Slot, Job, Attempt, Member, MaintenanceWindow, Event, Round, Receipt, Prediction)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def a_node_falls_silent(cluster: list[Node], job: Job) -> None:
    silent_since = now_ms() - DAY_MS
    Node.objects.update(last_seen_ms=silent_since)
    liveness.saw(cluster[0].id, silent_since)
    clusters.sweep(clock=lambda: 0)  # it was first seen a day before now


def a_heartbeat_is_to_be_kept(cluster: list[Node], job: Job) -> None:
    Node.objects.update(last_seen_ms=now_ms() - DAY_MS)


def maintenance_begins(cluster: list[Node], job: Job) -> None:
    now = now_ms()
    hosts = [node.hostname for node in cluster]
    window = clusters.book_maintenance(SYSTEM, hosts, now + HOUR_MS, now + 2 * HOUR_MS, "new switch")
    MaintenanceWindow.objects.filter(id=window.pk).update(begin_ms=now - 1)


def a_job_under_maintenance_is_to_leave(cluster: list[Node], job: Job) -> None:
    maintenance_begins(cluster, job)
    Node.objects.update(drain_requested=True)
    MaintenanceWindow.objects.update(begun=True)


def a_limit_is_reached(cluster: list[Node], job: Job) -> None:
    Job.objects.filter(id=job.id).update(started_ms=now_ms() - 30 * DAY_MS)


def somebody_waits(cluster: list[Node], job: Job) -> None:
    jobs.submit(actor_of(job.user), {**SPEC, "name": "waits"})


@pytest.fixture
def running(cluster: list[Node], submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=2, preemptible=True)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


@pytest.fixture
def stale(running: Job) -> Leadership:
    """It led, and while it planned somebody else was made the leader."""
    old = lease.acquire("scheduler", "frozen:1")
    assert old is not None
    lease.release(old)
    assert lease.acquire("scheduler", "awake:1") is not None
    return old


@pytest.mark.parametrize(
    "situation",
    [
        a_node_falls_silent,
        a_heartbeat_is_to_be_kept,
        maintenance_begins,
        a_job_under_maintenance_is_to_leave,
        a_limit_is_reached,
        somebody_waits,
    ],
)
def test_the_old_leader_writes_nothing(
    situation: Situation, cluster: list[Node], running: Job, stale: Leadership
) -> None:
    situation(cluster, running)
    before = rows()
    with pytest.raises(lease.LostLease):
        scheduling._round(stale)
    assert rows() == before


def test_the_new_leader_does_what_the_old_one_left(
    cluster: list[Node], running: Job, stale: Leadership
) -> None:
    a_limit_is_reached(cluster, running)
    scheduling._round(Leadership("scheduler", stale.fencing + 1))
    assert Job.objects.get(id=running.id).stop != "none"
