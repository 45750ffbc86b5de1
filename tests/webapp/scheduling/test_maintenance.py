"""Booked maintenance: nodes are kept free for it, drained at its begin and back at its end."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes import services as clusters
from webapp.nodes.models import MaintenanceWindow, Node
from webapp.quotas.models import Quota

Browser = Callable[[User], Client]


def submit(who: User, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "num_gpus": 8, **changes})[0]


def book(nodes: list[Node], in_hours: float, hours: float = 1) -> MaintenanceWindow:
    begin_ms = now_ms() + round(in_hours * HOUR_MS)
    end_ms = begin_ms + round(hours * HOUR_MS)
    return clusters.book_maintenance(
        SYSTEM, [node.hostname for node in nodes], begin_ms, end_ms, "new switch"
    )


def it_is_time(window: MaintenanceWindow, *, to_end: bool = False) -> None:
    """The moment of its begin, or of its end, has come."""
    now = now_ms()
    times = {"begin_ms": now - 1_000, "end_ms": now if to_end else now + HOUR_MS}
    MaintenanceWindow.objects.filter(id=window.pk).update(**times)


def states(nodes: list[Node]) -> list[str]:
    return [Node.objects.get(id=node.id).state for node in nodes]


def test_a_job_that_could_run_into_it_waits_and_is_told_so(cluster: list[Node], owner: User) -> None:
    Quota.objects.update(maximum=16)
    book(cluster[:1], in_hours=2)
    long, short = submit(owner, max_runtime_hours=3), submit(owner, max_runtime_hours=1, priority=90)
    tick()
    assert (state(long), state(short)) == ("pending", "scheduled")
    tick()
    waiting = Job.objects.get(id=long.id)
    assert waiting.wait_numbers["reserved_start_ms"] >= now_ms() + 2 * HOUR_MS


def test_the_wait_names_the_maintenance(cluster: list[Node], owner: User) -> None:
    book(cluster[:1], in_hours=2)
    long = submit(owner, max_runtime_hours=3)
    tick()
    waiting = Job.objects.get(id=long.id)
    assert waiting.wait_code == "maintenance"
    assert "maintenance of node-0 begins in" in waiting.wait_sentence


def test_at_its_begin_nodes_are_drained_and_movable_jobs_move(cluster: list[Node], owner: User) -> None:
    movable = submit(owner, num_gpus=2, preemptible=True, node_labels={"on": "first"})
    clusters.mark(SYSTEM, cluster[0].id, labels={"on": "first"})
    clusters.mark(SYSTEM, cluster[1].id, labels={"on": "second"})
    fixed = submit(owner, num_gpus=2, node_labels={"on": "second"})
    tick()
    say(movable, MemberPhase.RUNNING)
    say(fixed, MemberPhase.RUNNING)
    window = book(cluster[:2], in_hours=1)
    it_is_time(window)
    tick()
    assert states(cluster) == ["draining", "draining", "ready", "ready"]
    assert [Job.objects.get(id=job.id).stop for job in (movable, fixed)] == ["preempt", "none"]
    clusters.mark(SYSTEM, cluster[2].id, labels={"on": "first"})
    say(movable, MemberPhase.EXITED, 0)
    tick()
    assert state(movable) == "scheduled"
    assert states(cluster)[0] == "drained"


def test_at_its_end_only_the_nodes_that_it_drained_come_back(cluster: list[Node], cast: Any) -> None:
    clusters.drain(SYSTEM, cluster[0].id, "broken fan")
    window = book(cluster[:2], in_hours=1)
    it_is_time(window)
    tick()
    it_is_time(window, to_end=True)
    tick()
    assert states(cluster) == ["drained", "ready", "ready", "ready"]


def test_a_node_with_two_windows_comes_back_after_the_later(cluster: list[Node], cast: Any) -> None:
    first, second = book(cluster[:1], in_hours=1), book(cluster[:1], in_hours=1)
    it_is_time(first)
    it_is_time(second)
    tick()
    it_is_time(first, to_end=True)
    tick()
    assert states(cluster)[0] in ("draining", "drained")
    it_is_time(second, to_end=True)
    tick()
    assert states(cluster)[0] == "ready"


def test_cancelled_while_it_runs_its_nodes_take_work_again(cluster: list[Node], cast: Any) -> None:
    window = book(cluster[:1], in_hours=1)
    it_is_time(window)
    tick()
    clusters.cancel_maintenance(SYSTEM, window.pk)
    assert states(cluster)[0] == "ready"
    kinds = [event.kind for event in Event.objects.filter(subject_id=cluster[0].id)]
    assert {"MaintenanceBooked", "MaintenanceCancelled", "NodeDraining", "NodeReady"} <= set(kinds)


def test_an_operator_books_on_the_page_and_everybody_sees_it(
    cluster: list[Node], admin: User, outsider: User, browser: Browser
) -> None:
    form = {"nodes": "node-1, node-2", "begins": "1.5", "hours": "2", "reason": "new switch"}
    assert browser(admin).post("/nodes/maintenance/", form).status_code == 302
    for address in ("/nodes/maintenance/", "/queue/", f"/nodes/{cluster[1].id}/"):
        assert "new switch" in browser(outsider).get(address).content.decode()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"nodes": "node-9"}, "there is no node node-9"),
        ({"nodes": ""}, "name at least one"),
        ({"hours": "0"}, "it must end after it begins"),
        ({"hours": "2000"}, "last 30 d"),
        ({"begins": "soon"}, "it must be a number of hours"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(
    cluster: list[Node], admin: User, browser: Browser, wrong: dict[str, str], told: str
) -> None:
    form = {"nodes": "node-1", "begins": "1", "hours": "2", **wrong}
    answer = browser(admin).post("/nodes/maintenance/", form)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not MaintenanceWindow.objects.exists()


def test_over_rest(cluster: list[Node], admin: User) -> None:
    rest = APIClient()
    rest.force_login(admin)
    body = {"nodes": ["node-1"], "begin_ms": now_ms() + HOUR_MS, "end_ms": now_ms() + 2 * HOUR_MS}
    made = rest.post("/api/v1/maintenance-windows", body, format="json").json()
    assert (made["nodes"], made["booked_by"], made["begun"]) == (["node-1"], "root", False)
    assert rest.get("/api/v1/maintenance-windows").json()["results"] == [made]
    assert rest.delete(f"/api/v1/maintenance-windows/{made['id']}").status_code == 204
    assert rest.delete(f"/api/v1/maintenance-windows/{made['id']}").status_code == 404
