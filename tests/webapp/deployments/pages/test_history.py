"""The page of deployments that have ended."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.deployments.models import Deployment, Worker
from webapp.events import services as events
from webapp.nodes.models import Node
from webapp.pages.deployments import history
from webapp.pages.deployments.history import DAY_MS, Question
from webapp.registry.models import ModelVersion

SIZE = 10 * 2**20
Browser = Callable[[User], Client]


@pytest.fixture
def ended(version: ModelVersion, owner: User, nodes: list[Node]) -> Callable[..., Deployment]:
    """ended(days=3, took_ms=1040): a deployment to four nodes that has ended so long ago."""

    def make(days: int = 1, took_ms: int = 1040, state: str = "complete", store: int = SIZE) -> Deployment:
        at = now_ms() - days * DAY_MS
        row = Deployment.objects.create(
            id=f"dep-{Deployment.objects.count():016}", team_id="vision", user=owner, model_version=version,
            source_url="", state=state, estimated_ms=1000, bound_ms=1000, created_ms=at - took_ms,
            started_ms=at - took_ms, finished_ms=at, node_states={"complete": len(nodes)}, store_bytes=store,
            retries=sum(range(len(nodes))),
        )  # fmt: skip
        for position, node in enumerate(nodes):
            Worker.objects.create(
                deployment=row, node=node, position=position, state="complete", bytes_total=SIZE, bytes_done=SIZE,
                store_bytes=store if position == 0 else 0, retries=position,
            )  # fmt: skip
        return row

    return make


def page(browser: Browser, user: User, query: str = "") -> str:
    answer = browser(user).get(f"/deployments/history/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def charts(text: str) -> list[Any]:
    return [
        json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', text)
    ]


def test_it_tells_what_each_cost_and_all_together(
    ended: Callable[..., Deployment], owner: User, browser: Browser
) -> None:
    ended(days=3)
    ended(days=2, took_ms=2000, store=2 * SIZE)
    failed = ended(days=1, state="failed")
    events.record("WorkerFailed", f"deployment:{failed.id}", actor="system", team="vision")
    with CaptureQueriesContext(connection) as asked:
        text = page(browser, owner)
    assert not [query["sql"] for query in asked if "deployments_worker" in query["sql"]], (
        "there may be millions"
    )
    assert "1.52 ×" in text, "the median"
    assert "the worst 2.00 ×" in text
    assert "1 deployment failed" in text
    assert "2.00 ×" in text
    assert "failed 1 time<" in text
    assert f">vision/bytelm v{failed.model_version.version}</a>" in text
    [over, copies, failures] = charts(text)
    assert over["series"][0]["y"] == [1.04, 2.0]
    assert copies["series"][0]["y"] == [1.0, 2.0, 1.0]
    assert failures["series"][0]["y"] == [0, 0, 1]
    assert over["series"][0]["name"] == "vision/bytelm"


def test_the_filters_stand_in_the_address(
    ended: Callable[..., Deployment], owner: User, browser: Browser
) -> None:
    recent, old = ended(days=3), ended(days=60)
    assert old.id not in page(browser, owner)
    text = page(browser, owner, "?days=90")
    assert recent.id in text
    assert old.id in text
    assert '<option value="90" selected>' in text
    assert "Nothing ended that passes these filters" in page(browser, owner, "?model=vision/another")
    assert recent.id in page(browser, owner, "?model=vision/bytelm&days=many")


def test_nobody_sees_what_other_teams_deployed(
    ended: Callable[..., Deployment], cast: Cast, browser: Browser
) -> None:
    row = ended()
    assert row.id in page(browser, cast.viewer)
    assert row.id in page(browser, cast.admin, "?team=vision")
    for query in ("", "?team=vision", "?model=vision/bytelm"):
        text = page(browser, cast.outsider, query)
        assert row.id not in text
        assert "bytelm" not in text
        assert "No deployment has ended yet" in text


def test_what_is_under_way_is_not_history(
    ended: Callable[..., Deployment], owner: User, browser: Browser
) -> None:
    row = ended()
    Deployment.objects.filter(id=row.id).update(state="distributing", finished_ms=None)
    assert "No deployment has ended yet" in page(browser, owner)


def test_the_number_of_questions_to_the_database_does_not_grow(
    ended: Callable[..., Deployment], django_assert_num_queries: Any
) -> None:
    for days in range(1, 8):
        ended(days)
    with django_assert_num_queries(2):
        found = history.records(None, Question(), now_ms())
    assert [record.ended_ms for record in found] == sorted(record.ended_ms for record in found)
    assert all(record.nodes == 4 and record.retries == 6 for record in found)


def test_one_deployment_is_no_curve(ended: Callable[..., Deployment], owner: User, browser: Browser) -> None:
    ended()
    text = page(browser, owner)
    assert [chart["series"] for chart in charts(text)] == [[], [], []]
    assert "A curve needs two deployments of a model." in text
