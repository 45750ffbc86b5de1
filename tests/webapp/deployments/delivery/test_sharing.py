"""What a deployment may take of a node's link, from the request to the order of the agent."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.distribution.deployments.sharing import Share
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from tests.webapp.conftest import description
from tests.webapp.deployments.conftest import SIZE
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import queries
from webapp.deployments.delivery import sharing
from webapp.deployments.models import Deployment, TeamCap
from webapp.events.queries import story
from webapp.nodes import services as clusters
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion
from webapp.rpc.wanted import wanted_states


def ordered(node: Node) -> Share:
    (order,) = wanted_states([node.id])[0].deployments
    return order.share


def test_priority_and_cap_reach_the_agent(
    api: Callable[..., APIClient], owner: User, version: ModelVersion, nodes: list[Node]
) -> None:
    client = api(owner)
    body = {"model_id": "vision/bytelm", "version": 1, "priority": 30, "rate_cap": 5_000_000}
    made = client.post("/api/v1/deployments", body, format="json").json()
    assert (made["priority"], made["rate_cap"]) == (30, 5_000_000)
    assert ordered(nodes[0]) == Share(30, 5_000_000, "vision", inf)
    changed = client.patch(
        f"/api/v1/deployments/{made['id']}", {"priority": 50, "rate_cap": 0}, format="json"
    ).json()
    assert (changed["priority"], changed["rate_cap"]) == (50, 0)
    assert ordered(nodes[0]) == Share(50, inf, "vision", inf)
    assert story(f"deployment:{made['id']}")[-1].cause == "priority 50, no cap"
    refused = client.post("/api/v1/deployments", {**body, "priority": 0}, format="json")
    assert refused.status_code == 400


def test_the_teams_cap_comes_with_every_order_of_the_team(deployment: Deployment, nodes: list[Node]) -> None:
    assert ordered(nodes[0]) == Share(10, inf, "vision", inf)
    TeamCap.objects.create(team_id="vision", bytes_per_second=1_000_000)
    assert ordered(nodes[0]).team_cap == 1_000_000


def test_who_may_not_deploy_changes_no_share(deployment: Deployment, viewer: User, owner: User) -> None:
    with pytest.raises(TrainmasterError):
        sharing.change(actor_of(viewer), deployment.id, priority=90)
    with pytest.raises(TrainmasterError, match="1 to 100"):
        sharing.change(actor_of(owner), deployment.id, priority=101)
    row = queries.find(deployment.id)
    assert row is not None
    assert row.priority == 10


def test_failed_nodes_try_again_over_rest(
    api: Callable[..., APIClient], owner: User, deployment: Deployment
) -> None:
    url = f"/api/v1/deployments/{deployment.id}/retry"
    assert api(owner).post(url).json()["id"] == deployment.id


def test_a_node_s_own_caps_come_with_its_agent_and_count_in_what_is_told_before_a_start(
    api: Callable[..., APIClient],
    browser: Callable[..., Client],
    owner: User,
    version: ModelVersion,
    nodes: list[Node],
) -> None:
    free = api(owner).get("/api/v1/deployments/plan?model_id=vision/bytelm&version=1").json()
    clusters.hello(nodes[3].id, replace(description("node-3", 2), receive_cap=1_000_000, send_cap=2_000_000))
    told = api(owner).get("/api/v1/deployments/plan?model_id=vision/bytelm&version=1").json()
    assert (free["nodes_capped"], told["nodes_capped"]) == (0, 1)
    assert free["bound_seconds"] < 1
    assert told["bound_seconds"] == SIZE // 1_000 / 1_000
    assert all(each["time_seconds"] >= told["bound_seconds"] for each in told["strategies"])
    form = {"model_version": version.id, "targets": [node.id for node in nodes]}
    page = browser(owner).post("/deployments/plan/", form).content.decode()
    assert "less at 1 node with limits of their own" in page
    made = api(owner).post("/api/v1/deployments", {"model_id": "vision/bytelm", "version": 1}, format="json")
    assert made.json()["estimated_time_seconds"] >= told["bound_seconds"]
    facts = browser(owner).get(f"/nodes/{nodes[3].id}/").content.decode()
    assert format_bytes(1_000_000) + "/s" in facts
