"""Operators drain nodes over REST, for good or for a time."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from platform_core.units import HOUR_MS
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import tick
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.nodes import queries
from webapp.nodes.models import Node


@pytest.fixture
def operator(cast: Cast, admin_api: Callable[..., APIClient]) -> APIClient:
    return admin_api(cast.admin)


def state(node: Node) -> str:
    return Node.objects.get(id=node.id).state


def test_a_node_is_drained_by_its_hostname_and_resumed(cluster: list[Node], operator: APIClient) -> None:
    body = operator.post("/api/v1/nodes/node-1/drain", {"reason": "new memory"}, format="json").json()
    assert (body["hostname"], body["state"]) == ("node-1", "draining")
    assert Event.objects.get(kind="NodeDraining").cause == "drained by root: new memory"
    assert operator.post(f"/api/v1/nodes/{cluster[1].id}/resume").json()["state"] == "ready"


def test_a_node_drained_for_a_time_is_under_maintenance(cluster: list[Node], operator: APIClient) -> None:
    body = {"seconds": 7200, "reason": "new memory"}
    assert operator.post("/api/v1/nodes/node-1/drain", body, format="json").status_code == 200
    [window] = queries.maintenance()
    assert 0 <= 7_200_000 - (window.end_ms - window.begin_ms) < 1_000, "it begins when it is booked"
    assert window.reason == "new memory"
    tick()
    assert state(cluster[1]) == "draining"


def test_a_resumed_node_leaves_the_maintenance_that_has_begun(
    cluster: list[Node], operator: APIClient
) -> None:
    names = [node.hostname for node in cluster[:2]]
    window = {"nodes": names, "begin_ms": 0, "end_ms": now_ms() + HOUR_MS}
    assert operator.post("/api/v1/maintenance-windows", window, format="json").status_code == 201
    tick()
    assert operator.post("/api/v1/nodes/node-0/resume").json()["state"] == "ready"
    assert [name for _, name in queries.maintenance()[0].nodes] == ["node-1"]
    tick()
    assert (state(cluster[0]), state(cluster[1])) == ("ready", "drained")
    assert operator.post("/api/v1/nodes/node-1/resume").json()["state"] == "ready"
    assert queries.maintenance() == ()


def test_what_cannot_be_is_refused_with_a_sentence(cluster: list[Node], operator: APIClient) -> None:
    unknown = operator.post("/api/v1/nodes/node-9/drain", {}, format="json")
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "There is no node node-9 you may see")
    for seconds in (59, 31 * 86_400, "soon"):
        refused = operator.post("/api/v1/nodes/node-1/drain", {"seconds": seconds}, format="json")
        assert refused.status_code == 400, seconds
    assert state(cluster[1]) == "ready"


def test_a_lead_drains_nothing(cluster: list[Node], cast: Cast, api: Callable[..., APIClient]) -> None:
    assert api(cast.lead).post("/api/v1/nodes/node-1/drain", {}, format="json").status_code == 403
    assert state(cluster[1]) == "ready"
