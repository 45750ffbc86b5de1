"""The form of a deployment: which nodes, rack by rack, how, and what is said of what was entered wrongly."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.node.description import Telemetry
from tests.webapp.deployments.conftest import SIZE
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.deployments.models import Deployment
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion

Browser = Callable[[User], Client]


@pytest.fixture
def given(version: ModelVersion, nodes: list[Node]) -> dict[str, Any]:
    return {"model_version": version.id, "targets": [node.id for node in nodes[:2]]}


def boxes(page: str) -> dict[str, str]:
    """node id → what else its box says"""
    return dict(re.findall(r'name="targets" value="([^"]*)"([^>]*)>', page))


def test_the_form_has_the_nodes_by_rack_and_all_that_are_ready_are_chosen(
    version: ModelVersion, owner: User, nodes: list[Node], node: Callable[..., Node], browser: Browser
) -> None:
    away = node("node-9", rack="rack-1")
    Node.objects.filter(id=away.id).update(state="drained")
    page = browser(owner).get(f"/deployments/create/?model_version={version.id}").content.decode()
    assert re.findall(r'data-of="([^"]*)"', page) == ["rack-0", "rack-1"]
    assert boxes(page) == {node.id: " checked" for node in nodes} | {away.id: " disabled"}
    assert "drained, not available" in page
    assert "<details open><summary>Nodes" in page, "few nodes are shown at once"
    assert "/deployments/plan/" in page


def test_hundreds_of_nodes_are_chosen_by_rack(
    version: ModelVersion, owner: User, node: Callable[..., Node], browser: Browser
) -> None:
    for number in range(60):
        node(f"gpu-{number:03}", rack=f"rack-{number // 20}")
    page = browser(owner).get(f"/deployments/create/?model_version={version.id}").content.decode()
    assert page.count("data-whole") == 3
    assert len(boxes(page)) == 60
    assert "<details open><summary>Nodes" not in page, "closed, until somebody wants to pick out some"


def test_the_form_shows_what_its_choice_would_take(
    given: dict[str, Any], owner: User, browser: Browser
) -> None:
    told = browser(owner).post("/deployments/plan/", given).content.decode()
    assert "to 2 nodes by mesh" in told
    assert "sequential" in told
    bare = browser(owner).post("/deployments/plan/", {**given, "targets": []})
    assert "Choose at least one node" in bare.content.decode()
    capped = browser(owner).post("/deployments/plan/", {**given, "rate_cap_mib": "much"})
    assert "&quot;much&quot; is not a whole number of MiB/s" in capped.content.decode()


def test_nodes_with_too_little_room_are_named_with_the_numbers_before_anything_moves(
    given: dict[str, Any], owner: User, nodes: list[Node], browser: Browser, api: Callable[..., APIClient]
) -> None:
    for node, free in zip(nodes, (SIZE - 1, 3 << 20, SIZE), strict=False):
        liveness.heard(node.id, Telemetry(free, 0), now_ms())
    told = browser(owner).post("/deployments/plan/", given).content.decode()
    few, less = nodes[1].hostname, nodes[0].hostname
    assert f"2 nodes have less than 10 MiB free: {few} (3 MiB), {less} (10 MiB)" in told
    body = {"model_id": "vision/bytelm", "version": 1}
    over_rest = api(owner).post("/api/v1/deployments/plan", body, format="json").json()["short_of_room"]
    assert over_rest == [{"node": few, "free": 3 << 20}, {"node": less, "free": SIZE - 1}]


def test_a_form_may_name_ten_thousand_nodes(given: dict[str, Any], owner: User, browser: Browser) -> None:
    given["targets"] += [f"gpu-{number}" for number in range(10_000)]
    for url in ("/deployments/plan/", "/deployments/create/"):
        answer = browser(owner).post(url, given)
        assert "Node gpu-0 is not known here" in answer.content.decode(), "it was read, all of it"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"targets": []}, "Choose at least one node."),
        ({"targets": ["gpu-77"]}, "Node gpu-77 is not known here"),
        ({"priority": "high"}, '"high" is not a number from 1 to 100; leave it empty for the default, 10.'),
        ({"priority": "0"}, '"0" is not a number from 1 to 100'),
        ({"priority": "101"}, '"101" is not a number from 1 to 100'),
        ({"rate_cap_mib": "-5"}, '"-5" is not a whole number of MiB/s; leave it empty for no cap.'),
        ({"activate": "1", "hold_minutes": "soon"}, '"soon" is not a number of minutes'),
        ({"activate": "1", "canary": "most"}, '"most" is neither a number of nodes nor a percentage'),
        ({"activate": "1", "canary": "3"}, "3 canaries of 2 nodes; there are not so many"),
    ],
)
def test_what_is_wrong_is_said_with_its_value_and_the_form_stays_as_it_was_filled_in(
    changes: dict[str, Any], sentence: str, given: dict[str, Any], owner: User, nodes: list[Node],
    browser: Browser,
) -> None:  # fmt: skip
    answer = browser(owner).post("/deployments/create/", {**given, "hook": "reload", **changes})
    page = answer.content.decode().replace("&quot;", '"').replace("&#x27;", "'")
    assert answer.status_code == 422
    assert sentence in page
    assert not Deployment.objects.exists()
    chosen = {name for name, rest in boxes(page).items() if "checked" in rest}
    assert chosen == {node.id for node in nodes} & set(changes.get("targets", given["targets"]))
    assert 'value="reload"' in page
    for name, text in changes.items():
        if name not in ("targets", "activate"):
            assert f'name="{name}" type="text" value="{text}"' in page


def test_two_things_that_are_wrong_are_both_said(
    given: dict[str, Any], owner: User, browser: Browser
) -> None:
    answer = browser(owner).post("/deployments/create/", {**given, "priority": "p", "rate_cap_mib": "c"})
    page = answer.content.decode()
    assert "2 things are in the way" in page
    assert page.count('aria-invalid="true"') == 2
