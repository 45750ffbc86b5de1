"""What would start a waiting job now, on its page and before it is submitted: eight slots on four nodes."""

import re
from collections import Counter
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from platform_core.cluster.snapshot import Snapshot
from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import Plan
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.scheduling import dry_run, predictions

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]


def submit(who: User, name: str, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "name": name, **changes})[0]


@pytest.fixture
def waiting(owner: User) -> Job:
    """Six of eight slots are held for two hours; it asks for four."""
    running = submit(owner, "running", num_gpus=6, max_runtime_hours=2)
    tick()
    say(running, MemberPhase.RUNNING)
    job = submit(owner, "waiting", num_gpus=4)
    tick()
    return job


def look(client: Client, job: Job) -> str:
    cache.clear()
    address = f"/queue/{job.id}/changes/?block=changes"
    return unescape(client.get(address, headers={"HX-Request": "true"}).content.decode())


def test_the_change_that_is_told_is_made_with_one_click_and_starts_it(
    waiting: Job, browser: Browser, owner: User
) -> None:
    client = browser(owner)
    assert (
        f'hx-get="/queue/{waiting.id}/changes/?block=changes"'
        in client.get(f"/jobs/{waiting.id}/").content.decode()
    )
    told = look(client, waiting)
    assert "2 slots of cpu instead of 4" in told
    (clone,) = re.findall(r'href="(/jobs/submit/\?clone=[^"]*num_gpus=2[^"]*)"', told)
    form = client.get(clone).content.decode()
    assert re.search(r'name="num_gpus"[^>]*value="2"', form)
    jobs.cancel(actor_of(owner), waiting.id)
    smaller = submit(owner, "smaller", num_gpus=2)
    tick()
    assert state(smaller) == "scheduled"


def test_who_may_not_submit_is_told_but_cannot_clone(waiting: Job, browser: Browser, viewer: User) -> None:
    told = look(browser(viewer), waiting)
    assert "2 slots of cpu instead of 4" in told
    assert "clone=" not in told


def test_once_it_runs_nothing_is_told(waiting: Job, browser: Browser, owner: User) -> None:
    say(Job.objects.get(name="running"), MemberPhase.EXITED, 0)
    tick()
    assert state(waiting) == "scheduled"
    assert "instead of" not in look(browser(owner), waiting)
    assert "/changes/" not in browser(owner).get(f"/jobs/{waiting.id}/").content.decode()


def test_before_it_is_submitted_its_place_its_start_and_what_would_start_it_are_told(
    waiting: Job, browser: Browser, owner: User
) -> None:
    predictions.predict()
    given = {**SPEC, "name": "asked", "command": "true", "num_gpus": "3"}
    client = browser(owner)
    asked = {"headers": {"HX-Request": "true"}}
    panel = client.post("/jobs/check/?block=check", given, **asked).content.decode()
    assert "It would wait" in panel
    asks = re.search(r'<div class="outlook"[^>]*hx-post="/jobs/check/\?block=outlook"[^>]*>', panel)
    assert asks
    assert 'hx-swap="innerHTML"' in asks[0]  # the answer stands in the panel's own part, apart from the quota
    told = unescape(client.post("/jobs/check/?block=outlook", given, **asked).content.decode())
    assert re.search(r"<dt>Queue position</dt><dd>1</dd>", told)
    assert re.search(r"<dt>Estimated start</dt><dd>in .* to .*</dd>", told)
    assert "<li>2 slots of cpu instead of 3.</li>" in told


def test_of_another_teams_job_nothing_is_worked_out(browser: Browser, outsider: User) -> None:
    given = {**SPEC, "name": "asked", "command": "true"}
    told = browser(outsider).post("/jobs/check/?block=outlook", given, headers={"HX-Request": "true"})
    assert told.content.decode().strip() == ""


def test_a_program_is_told_the_same(waiting: Job, api: Callable[[User], APIClient], owner: User) -> None:
    predictions.predict()

    def asked(gpus: int) -> dict[str, Any]:
        return (
            api(owner).post("/api/v1/training-jobs/dry-run", {**SPEC, "num_gpus": gpus}, format="json").json()
        )

    told = asked(3)
    assert (told["outcome"], told["position"]) == ("waits", 1), "it is smaller than the one that waits"
    assert told["should_start"].startswith("in ")
    assert "2 slots of cpu instead of 3" in told["changes"]
    assert asked(2) == {"outcome": "starts", "why": "", "position": None, "should_start": "", "changes": []}
    assert asked(9)["outcome"] == "refused"
    assert Job.objects.count() == 2, "nothing is kept"


def test_all_of_a_dry_run_is_told_of_one_situation_that_is_loaded_and_planned_once(
    waiting: Job, api: Callable[[User], APIClient], owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that tries a dozen sizes asks a dozen times; and between two loads the cluster could change."""
    planned = []

    def counted(snapshot: Snapshot, policy: Policy) -> Plan:
        planned.append(snapshot.now_ms)
        return plan(snapshot, policy)

    monkeypatch.setattr(dry_run, "plan", counted)
    predictions.predict()
    client = api(owner)
    for gpus, outcome in ((3, "waits"), (2, "starts")):
        planned.clear()
        with CaptureQueriesContext(connection) as made:
            told = client.post("/api/v1/training-jobs/dry-run", {**SPEC, "num_gpus": gpus}, format="json")
        assert told.json()["outcome"] == outcome
        asked = Counter(re.sub(r"\d+", "0", one["sql"]) for one in made if "nodes_node" in one["sql"])
        assert asked, "the situation has nodes"
        assert max(asked.values()) == 1
        assert len(planned) == 1


def test_a_form_whose_job_has_room_by_now_is_not_told_what_would_start_it(
    waiting: Job, browser: Browser, owner: User
) -> None:
    given = {**SPEC, "name": "asked", "command": "true", "num_gpus": "2"}
    told = browser(owner).post("/jobs/check/?block=outlook", given, headers={"HX-Request": "true"})
    assert "<dt>Estimated start</dt><dd>in the next round</dd>" in told.content.decode()
    assert "would start it now" not in told.content.decode()
