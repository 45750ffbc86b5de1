"""How often to save, on the job's page and over REST, from what its saves, its starts and its nodes have shown."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.events import CheckpointStarted
from platform_core.jobs.job import MemberPhase
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import cluster, say, submit, tick
from webapp.accounts.models import User
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.checkpoints.models import Checkpoint
from webapp.events import services as events
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job
from webapp.nodes import queries as clusters
from webapp.nodes.models import Node

__all__ = ["cluster", "submit"]
Browser = Callable[[User], Client]
Api = Callable[[User], APIClient]


@pytest.fixture
def job(cluster: list[Node], submit: Callable[..., Job]) -> Job:
    """It runs on two nodes of two slots, a minute after it was placed. The four nodes joined fifty days ago."""
    made = submit(num_gpus=4)
    tick()
    say(made, MemberPhase.RUNNING)
    attempt = Attempt.objects.get(job=made)
    Attempt.objects.filter(id=attempt.id).update(placed_ms=(attempt.running_ms or 0) - MINUTE_MS)
    Node.objects.update(joined_ms=now_ms() - 50 * DAY_MS)
    Manifest.objects.create(
        id="man-1", kind="checkpoint", total_bytes=1, files=1, document={"files": []}, created_ms=1
    )
    return made


def saves(job: Job, *, every_ms: int, save_ms: int, count: int = 4) -> None:
    first_ms = now_ms() - HOUR_MS
    for step in range(1, count + 1):
        saved_ms = first_ms + step * every_ms
        begun = CheckpointStarted(at_ms=saved_ms - save_ms, actor="node:n", attempt=1, step=step)
        jobs.observe(job.id, begun)
        Checkpoint.objects.create(
            id=f"ckpt-{step}", job=job, attempt=1, step=step, manifest_id="man-1", saved_ms=saved_ms,
            deleted_ms=None if step == count else 1,
        )  # fmt: skip
        Job.objects.filter(id=job.id).update(state="running")


def lose(node: Node, *, days_ago: int, drained: bool = False) -> None:
    events.record(
        "NodeLost", f"node:{node.id}", actor="system", at_ms=now_ms() - days_ago * DAY_MS,
        data={"before": "suspect", "drain_requested": drained},
    )  # fmt: skip


def look(client: Client, job: Job) -> str:
    return unescape(client.get(f"/jobs/{job.id}/?tab=checkpoints").content.decode())


def lines(page: str) -> dict[str, list[str]]:
    card = page.partition('id="saving-title"')[2].partition("</section>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', card)
    return {label: re.findall(r"<td[^>]*>(.*?)</td>", cells) for label, cells in rows}


def told(api: Api, who: User, job: Job) -> dict[str, Any]:
    answer: dict[str, Any] = api(who).get(f"/api/v1/training-jobs/{job.id}/checkpoints").json()["saving"]
    return answer


def test_before_the_first_save_nothing_is_advised(job: Job, browser: Browser, api: Api, owner: User) -> None:
    page = look(browser(owner), job)
    assert "No checkpoint yet" in page
    assert "Checkpoint interval" not in page
    assert told(api, owner, job) is None


def test_its_habit_stands_beside_the_advice_for_its_gang_and_the_losses_of_its_nodes(
    job: Job, cluster: list[Node], browser: Browser, api: Api, owner: User
) -> None:
    saves(job, every_ms=5 * MINUTE_MS, save_ms=MINUTE_MS)
    for days_ago in (1, 4, 9):
        lose(cluster[0], days_ago=days_ago)
    lose(cluster[1], days_ago=2, drained=True)
    lose(cluster[1], days_ago=40)
    saving = told(api, owner, job)
    assert saving["habit"] == {"saves": 4, "save_ms": MINUTE_MS, "interval_ms": 4 * MINUTE_MS}
    assert (saving["nodes"], saving["restart_ms"], saving["losses"]["lost"]) == (2, MINUTE_MS, 3)
    assert round(saving["losses"]["node_ms"] / DAY_MS) == 120, (
        "four nodes, and no more than thirty days of each"
    )
    assert round(saving["gang_mtbf_ms"] / DAY_MS) == 20, "one of two"
    page = look(browser(owner), job)
    found = lines(page)
    assert found["Current"][:2] == ["4 min", "20.0 %"]
    assert found["Recommended"][0] == "3 h 59 min"
    assert "A save every 3 h 59 min instead of every 4 min would give it back" in page
    assert (
        "Based on 4 saves (median 1 min), 2 nodes, a restart time of 1 min, "
        "and 3 node failures of its GPU type in 120.0 node-days." in page
    )


def test_a_save_that_is_written_beside_the_loop_costs_its_blocking_time(
    job: Job, api: Api, owner: User
) -> None:
    saves(job, every_ms=5 * MINUTE_MS, save_ms=MINUTE_MS)
    Checkpoint.objects.update(blocking_ms=500)
    habit = told(api, owner, job)["habit"]
    assert (habit["save_ms"], habit["interval_ms"]) == (500, 5 * MINUTE_MS - 500)


def test_with_nodes_that_are_new_and_whole_the_loss_is_not_made_up(
    job: Job, browser: Browser, api: Api, owner: User
) -> None:
    Node.objects.update(joined_ms=now_ms() - DAY_MS)
    saves(job, every_ms=5 * MINUTE_MS, save_ms=MINUTE_MS)
    assert lines(look(browser(owner), job)) == {"Current": ["4 min", "20.0 %", "unknown", "unknown"]}
    saving = told(api, owner, job)
    assert saving["advised"] is None
    assert saving["sentence"].startswith("No node of cpu was lost in 4.0 node-days: too short a time to tell")


def test_after_long_without_a_loss_only_what_is_too_often_is_told(
    job: Job, browser: Browser, owner: User
) -> None:
    saves(job, every_ms=5 * MINUTE_MS, save_ms=MINUTE_MS)
    page = look(browser(owner), job)
    assert lines(page)["Recommended"][0].startswith("at least ")
    assert "more often than is worth it" in page


def test_nodes_of_another_type_and_times_away_do_not_count(
    cluster: list[Node], node: Callable[..., Node]
) -> None:
    other, now = node("other", gpu_type="a100"), now_ms()
    Node.objects.update(joined_ms=now - 10 * DAY_MS)
    lose(other, days_ago=1)
    assert clusters.losses("cpu", now - 30 * DAY_MS, now).lost == 0
    Node.objects.filter(id=cluster[0].id).update(state="lost", state_since_ms=now - 4 * DAY_MS)
    Node.objects.filter(id=cluster[1].id).update(revoked_ms=now - 9 * DAY_MS)
    assert clusters.losses("cpu", now - 30 * DAY_MS, now).node_ms == (6 + 1 + 10 + 10) * DAY_MS
