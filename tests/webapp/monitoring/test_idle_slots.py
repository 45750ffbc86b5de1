"""Who holds slots without using them is warned where people look: the job, the list, the cluster page."""

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import idle_policy
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.sockets import services as sockets

Browser = Callable[[User], Client]
HALF_HOUR_MS = 30 * MINUTE_MS
PLACES = {"/cluster/": "idle", "/jobs/": "list", "/jobs/{job}/": "head"}
WARNED = "Its 8 slots of cpu have been below 5 % for"


@pytest.fixture
def running(cluster: list[Node], owner: User) -> Job:
    job = jobs.submit(actor_of(owner), {**SPEC, "name": "sleeper", "num_gpus": 8, "preemptible": True})[0]
    tick()
    say(job, MemberPhase.RUNNING)
    return Job.objects.get(id=job.id)


def look(person: Client, job: Job) -> dict[str, str]:
    asked = {"headers": {"HX-Request": "true"}}
    return {
        place: unescape(person.get(place.format(job=job.id), {"block": block}, **asked).content.decode())
        for place, block in PLACES.items()
    }


def idles_for(job: Job, for_ms: int) -> None:
    Job.objects.filter(id=job.id).update(idle_since_ms=now_ms() - for_ms)


def test_the_warning_stands_on_the_job_in_the_list_and_on_the_cluster_page(
    running: Job, browser: Browser, owner: User, settings: Any
) -> None:
    settings.IDLE_RECLAIM = True
    idles_for(running, HALF_HOUR_MS - MINUTE_MS)
    assert not any("slots idle" in part for part in look(browser(owner), running).values())
    idles_for(running, HALF_HOUR_MS + MINUTE_MS)
    seen = look(browser(owner), running)
    assert all('<span class="state wait">slots idle</span>' in part for part in seen.values())
    head = seen["/jobs/{job}/"]
    assert f"{WARNED} 31 min" in head
    assert "; it gives its slots up in 2" in head
    assert "If it hangs, cancel it: its checkpoints, metrics and log stay." in head
    assert '<div class="answer wait">' in head
    assert "gives its slots up in 2" in seen["/cluster/"]


def test_where_nothing_is_taken_back_that_is_told_too(running: Job, browser: Browser, owner: User) -> None:
    idles_for(running, HOUR_MS)
    seen = look(browser(owner), running)
    assert "keeps its slots" in seen["/cluster/"]
    assert f"{WARNED} 1 h. If it hangs" in seen["/jobs/{job}/"]


def test_others_do_not_learn_what_a_team_holds_without_use(
    running: Job, browser: Browser, outsider: User
) -> None:
    idles_for(running, HOUR_MS)
    page = browser(outsider).get("/cluster/").content.decode()
    assert "sleeper" not in page
    assert "slots idle" not in page


def test_one_that_stops_or_works_again_is_warned_of_no_more(
    running: Job, browser: Browser, owner: User
) -> None:
    idles_for(running, HOUR_MS)
    idle_policy.keep_utilisation({running.id: 0.9}, now_ms())
    assert not any("slots idle" in part for part in look(browser(owner), running).values())
    idles_for(running, HOUR_MS)
    jobs.cancel(actor_of(owner), running.id)
    assert not any("slots idle" in part for part in look(browser(owner), running).values())


def test_open_pages_hear_of_the_warning_and_of_its_end(running: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(sockets, "publish", lambda subject, data=None: heard.append(subject))
    now = now_ms()
    idle_policy.keep_utilisation({running.id: 0.0}, now)
    idle_policy.deal_with_idle(now + HALF_HOUR_MS)
    assert {"jobs:vision", "cluster"} <= set(heard)
    heard.clear()
    idle_policy.keep_utilisation({running.id: 0.0}, now + HALF_HOUR_MS)
    assert heard == [f"job:{running.id}"]
    idle_policy.keep_utilisation({running.id: 0.9}, now + HALF_HOUR_MS)
    assert "jobs:vision" in heard
