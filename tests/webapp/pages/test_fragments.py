"""A fragment pays for what it shows: what a live event costs is this, for each page that is open somewhere."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, job_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.experiments.models import Run
from webapp.jobs import services as jobs
from webapp.pages import fragments

# Page, fragment, and how often it asks the database at most; three of them say who is there.
COSTS = [
    ("/", "work", 8),
    ("/", "failures", 4),
    ("/", "runs", 4),
    ("/", "headroom", 7),
    ("/cluster/", "numbers", 10),
    ("/cluster/", "idle", 5),
    ("/cluster/", "map", 6),
    ("/cluster/", "pending", 8),
    ("/cluster/", "busy", 4),
    ("/cluster/", "events", 5),
    ("/jobs/", "list", 8),
    ("/jobs/{job}/", "head", 10),
    ("/jobs/{job}/", "curves", 7),
    ("/jobs/{job}/", "side", 10),
    ("/jobs/{job}/?tab=timeline", "timeline", 6),
    ("/jobs/{job}/?tab=timeline", "recovery", 8),
    ("/jobs/{job}/?tab=timeline", "start", 8),
    ("/jobs/{job}/?tab=checkpoints", "checkpoints", 12),
    ("/jobs/{job}/?tab=efficiency", "efficiency", 12),
    ("/nodes/", "list", 7),
    ("/nodes/{node}/", "head", 9),
    ("/nodes/{node}/", "slots", 7),
    ("/nodes/{node}/", "events", 5),
    ("/teams/vision/", "quota", 10),
    ("/experiments/", "list", 11),
    ("/experiments/{experiment}/", "runs", 10),
]


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.mark.parametrize(("page", "block", "at_most"), COSTS, ids=lambda value: str(value))
def test_a_fragment_asks_only_for_what_it_shows(
    page: str, block: str, at_most: int, world: World, cast: Cast, browser: Callable[[User], Client]
) -> None:
    person = browser(cast.owner)
    address = page.format_map(vars_of(world))
    address += f"{'&' if '?' in address else '?'}block={block}"
    with CaptureQueriesContext(connection) as asked:
        answer = person.get(address, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert len(asked) <= at_most, "\n".join(query["sql"] for query in asked)


def vars_of(world: World) -> dict[str, Any]:
    return {name: getattr(world, name) for name in ("job", "node", "experiment")}


def test_more_runs_cost_an_experiment_no_more_questions(
    world: World, cast: Cast, browser: Callable[[User], Client]
) -> None:
    person = browser(cast.owner)

    def questions() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert person.get(f"/experiments/{world.experiment}/").status_code == 200
        return len(asked)

    before = questions()
    for _ in range(3):
        jobs.submit(actor_of(cast.owner), job_mapping())
    assert Run.objects.filter(experiment=world.experiment).count() == 5  # with the job, and its repetition
    assert questions() == before


def test_a_function_is_asked_once_and_only_by_what_shows_it(rf: RequestFactory) -> None:
    asked = []

    def kinds() -> list[str]:
        asked.append("kinds")
        return ["JobSubmitted"]

    context = {"events": [], "filters": {}, "kinds": kinds, "pager": {}}
    page = fragments.render(rf.get("/"), "overview/audit.html", context)
    assert b"JobSubmitted" in page.content
    assert asked == ["kinds"]
    request = rf.get("/", {"block": "list"}, headers={"HX-Request": "true"})
    fragments.render(request, "overview/audit.html", context)
    assert asked == ["kinds"]
