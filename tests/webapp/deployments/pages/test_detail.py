"""The page of one deployment: what needs attention first, what limits it, and how it ended."""

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.deployments.conftest import SIZE
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.deployments import queries, services
from webapp.deployments.models import Deployment, TeamCap, Worker
from webapp.deployments.values import Manner
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.nodes.models import Node
from webapp.pages.deployments import views
from webapp.pages.deployments.numbers import numbers
from webapp.pages.deployments.presentation import answer, counts
from webapp.registry.models import ModelVersion
from webapp.rollouts import services as rollouts
from webapp.rollouts.values import RolloutWish

Browser = Callable[[User], Client]


def page_of(row: Deployment, client: Client) -> str:
    return client.get(f"/deployments/{row.id}/").content.decode()


def report(row: Deployment, node: Node, state: str, **changes: object) -> None:
    told = {"bytes_done": 0, "error_code": "", "error": "", "retries": 0, "source": ""} | changes
    services.report(
        node.id,
        DeploymentObserved(row.id, TransferState(state), bytes_total=SIZE, **told),
    )  # type: ignore[arg-type]


def test_of_those_that_are_ready_the_last_comes_first(
    deployment: Deployment, nodes: list[Node], owner: User, browser: Browser
) -> None:
    for place, node in enumerate(nodes):
        report(deployment, node, "complete", bytes_done=SIZE)
        Worker.objects.filter(node=node).update(finished_ms=deployment.created_ms + place * 1000 % 3000)
    shown = page_of(deployment, browser(owner)).partition('id="workers"')[2]
    order = re.findall(r'<tr data-key="[^"]*"><td><a [^>]*>(node-\d)<', shown)
    assert order[:2] == ["node-2", "node-1"]


def test_what_it_may_take_of_the_links_is_said_and_counts_for_the_plan(
    version: ModelVersion, nodes: list[Node], owner: User, vision: Team, browser: Browser
) -> None:
    TeamCap.objects.create(team=vision, bytes_per_second=1 << 20)
    manner = Manner(priority=30, rate_cap=2 << 20)
    row = services.create(actor_of(owner), "vision/bytelm", version.version, manner=manner)
    assert row.bound_ms >= 10_000, "10 MiB at the 1 MiB/s of the team"
    client = browser(owner)
    page = page_of(row, client)
    told = "priority 30 of the usual 10 · at most 2 MiB/s on each node · the team at most 1 MiB/s ·"
    assert told in page
    assert "if each link carries 1 MiB/s, as configured" in page
    asked = {"model_id": "vision/bytelm", "version": version.version}
    assert client.get("/api/v1/deployments/plan", asked).json()["bound_seconds"] >= 10
    form = client.post("/deployments/plan/", {"model_version": version.id, "targets": [nodes[0].id]})
    assert "with 1 MiB/s on each link" in form.content.decode()


def test_one_that_is_limited_as_usual_does_not_say_so(
    deployment: Deployment, owner: User, browser: Browser
) -> None:
    assert "of the usual" not in page_of(deployment, browser(owner))


def test_one_that_failed_says_in_which_phase_and_leaves_the_bound_alone(
    deployment: Deployment, nodes: list[Node], owner: User, browser: Browser
) -> None:
    report(deployment, nodes[0], "receiving")
    for node in nodes:
        report(deployment, node, "failed", error_code="disk_full", error="The disk is full.")
    Deployment.objects.update(started_ms=1, finished_ms=1_000_000)
    page = page_of(deployment, browser(owner))
    assert "The disk is full. Fix the cause, then retry." in page
    assert re.search(r'class="failed"><progress max="100" value="100" aria-label="downloading"', page)
    assert "times that" not in page


def test_the_headline_and_the_table_agree_on_the_slowest_node(
    deployment: Deployment, nodes: list[Node]
) -> None:
    now = now_ms()
    for node, done in zip(nodes, (SIZE // 2, SIZE // 2, SIZE // 2, SIZE // 100), strict=True):
        report(deployment, node, "receiving", bytes_done=done)
    Worker.objects.update(started_ms=now - 6_000)
    workers = queries.workers(deployment.id)
    row = Deployment.objects.get(id=deployment.id)
    slowest = max(workers, key=lambda worker: worker.bytes_total - worker.bytes_done)
    assert answer(row, workers, now)["headline"] == "Ready in about 9 min 54 s"
    assert counts(slowest, now, now)["ready"] == "in 9 min 54 s"


def test_a_deployment_of_less_than_a_second_is_not_judged_by_its_rate(
    all_complete: Deployment, owner: User, browser: Browser
) -> None:
    page = page_of(all_complete, browser(owner))
    assert "Theoretical minimum" in page
    assert ">under 1 s</dd>" in page
    assert "estimated under 1 s" in page
    assert "times that" not in page


def test_one_that_failed_among_the_nodes_had_come_to_distributing(
    deployment: Deployment, nodes: list[Node], owner: User, browser: Browser
) -> None:
    for node in nodes:
        report(deployment, node, "receiving", bytes_done=1, source=nodes[0].id)
        report(deployment, node, "failed", error="Nobody can go on")
    page = page_of(deployment, browser(owner))
    assert re.search(r'class="failed"><progress max="100" value="100" aria-label="distributing"', page)
    assert "Nobody can go on. Fix the cause" in page


def test_why_a_node_asked_again_is_brought_by_the_socket(deployment: Deployment, nodes: list[Node]) -> None:
    place = queries.workers(deployment.id)[0]
    report(deployment, place.node, "receiving", retries=1, error="the store does not answer")
    assert numbers(deployment.id)[f"w{place.position}.note"] == (
        "asked again once; last, the store does not answer"
    )


@pytest.fixture
def all_complete(deployment: Deployment, nodes: list[Node]) -> Deployment:
    for node in nodes:
        report(deployment, node, "complete", bytes_done=SIZE)
    return deployment


def test_of_many_nodes_the_story_keeps_what_is_not_routine(
    all_complete: Deployment, owner: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, client = all_complete, browser(owner)
    few = page_of(deployment, client).partition('id="events"')[2]
    assert ("node-0 is complete" in few, "audit log</a>." in few) == (True, False)
    monkeypatch.setattr(views, "WORKERS_SHOWN", 3)
    many = page_of(deployment, client).partition('id="events"')[2]
    assert ("node-0 is complete" in many, "created:" in many) == (False, True)
    assert f"/audit/?subject={deployment.id}" in many
    monkeypatch.setattr(views, "WORKERS_SHOWN", 50)
    lines = [Happening("DeploymentPinned", f"deployment:{deployment.id}", "bob", "vision", "", None, {})] * 3
    events.record_all(lines)
    monkeypatch.setattr(views, "EVENTS_SHOWN", 2)
    few = page_of(deployment, client).partition('id="events"')[2]
    assert (few.count('data-key="event-'), "audit log</a>." in few) == (2, True)


def test_the_waterfall_says_of_how_many_it_shows_the_last(
    all_complete: Deployment, owner: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browser(owner)
    assert "the last 4 of 4" not in page_of(all_complete, client)
    monkeypatch.setattr("webapp.pages.deployments.movement.LINES", 3)
    assert "the last 3 of 4" in page_of(all_complete, client)


def test_nodes_that_switch_as_soon_as_they_hold_it_wait_for_their_copies(
    version: ModelVersion, nodes: list[Node], owner: User, browser: Browser
) -> None:
    row = rollouts.deploy(actor_of(owner), "vision/bytelm", version.version, wish=RolloutWish())
    page = page_of(row, browser(owner))
    assert re.search(r'class="now"[^>]*><progress max="100" value="0" aria-label="copies on 0 of 4"', page)
    assert "Health check" not in page, "none was asked for"


def test_a_fragment_pays_for_what_it_shows(
    version: ModelVersion, nodes: list[Node], owner: User, browser: Browser
) -> None:
    row = rollouts.deploy(actor_of(owner), "vision/bytelm", version.version, wish=RolloutWish())
    client = browser(owner)

    def tables(block: str) -> set[str]:
        with CaptureQueriesContext(connection) as asked:
            client.get(f"/deployments/{row.id}/?block={block}", headers={"HX-Request": "true"})
        sql = " ".join(query["sql"] for query in asked.captured_queries)
        return {table for table in ("events_event", "rollouts_rolloutmember") if f'FROM "{table}"' in sql}

    assert tables("workers") == set()
    assert tables("events") == {"events_event"}
    assert tables("rollout") == {"rollouts_rolloutmember"}
