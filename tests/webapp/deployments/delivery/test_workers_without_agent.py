"""The REST calls of workers that run no agent: they join, say what they have, and are told whether to go on."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import BOOTSTRAP, description
from tests.webapp.deployments.conftest import SIZE
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import coordination, queries, services
from webapp.deployments.models import Deployment, Worker
from webapp.nodes import services as clusters
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion

CHUNKS = 3  # of the model: two of 4 MiB, one of 2
ME = {"worker_id": "w-17", "hostname": "old-17", "rack": "rack-9", "available_storage": 10**12}


def call(path: str, secret: str, body: dict[str, Any]) -> Any:
    client = APIClient()
    if secret:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client.post(f"/api/v1/workers/{path}", body, format="json")


@pytest.fixture
def credential(db: None) -> str:
    told = call("register", BOOTSTRAP, ME).json()
    assert told["worker_id"] == "w-17"
    return str(told["credential"])


@pytest.fixture
def worker(credential: str) -> Node:
    return Node.objects.get(hostname="old-17")


@pytest.fixture
def deployment(version: ModelVersion, owner: User, worker: Node) -> Deployment:
    """To this worker and to nobody else."""
    return services.create(actor_of(owner), "vision/bytelm", 1, target_workers=["old-17"])


def say(credential: str, status: str = "receiving", chunks: tuple[int, ...] = (), **more: Any) -> Any:
    body = {
        "worker_id": "w-17", "status": status, "chunks_received": chunks, "bandwidth_in": 1e8, "bandwidth_out": 0,
        **more,
    }  # fmt: skip
    return call("heartbeat", credential, body)


def row_of(deployment: Deployment) -> Worker:
    return Worker.objects.get(deployment=deployment, node__hostname="old-17")


def test_it_joins_and_is_a_ready_node_without_slots(
    worker: Node, credential: str, owner: User, browser: Any
) -> None:
    assert (worker.state, worker.rack, worker.disk_bytes, worker.slots.count()) == (
        "ready",
        "rack-9",
        10**12,
        0,
    )
    assert clusters.authenticate(credential) == worker.id
    client: Client = browser(owner)
    assert "old-17" in client.get("/nodes/").content.decode()
    assert client.get(f"/nodes/{worker.id}/").status_code == 200


def test_it_comes_back_as_the_same_node(worker: Node, credential: str) -> None:
    again = call("register", credential, {**ME, "rack": "rack-8"}).json()
    assert (again["node_id"], again["credential"]) == (worker.id, "")
    anew = call("register", BOOTSTRAP, ME).json()
    assert anew["node_id"] == worker.id
    assert say(credential).status_code == 401, "the earlier credential has ended"
    assert say(anew["credential"]).status_code == 200
    assert Node.objects.count() == 1


def test_from_the_first_chunk_to_the_last(deployment: Deployment, credential: str) -> None:
    told = say(credential, "idle").json()
    assert told["continue"] is True
    assert told["deployment"]["id"] == deployment.id
    assert told["deployment"]["source_url"] == "file:///somewhere"
    assert say(credential, chunks=(0, 2)).json()["continue"] is True
    row = row_of(deployment)
    assert (row.state, row.bytes_done, bytes(row.chunks_done)) == ("receiving", 6 * 2**20, b"\x05")
    assert (row.rate_in, row.store_bytes) == (1e8, 6 * 2**20)
    assert say(credential, "verifying", (0, 1, 2)).json()["continue"] is True
    assert say(credential, "complete", (0, 1, 2)).json()["continue"] is False
    done = queries.find(deployment.id)
    assert done is not None
    assert done.state == "complete"
    assert row_of(deployment).bytes_done == SIZE


def test_it_is_told_to_stop_when_the_deployment_is_cancelled(
    deployment: Deployment, credential: str, owner: User
) -> None:
    say(credential, chunks=(0,))
    services.cancel(actor_of(owner), deployment.id)
    told = say(credential, chunks=(0, 1)).json()
    assert told["continue"] is False
    assert told["deployment"]["id"] == deployment.id
    assert row_of(deployment).bytes_done == 4 * 2**20, "what is cancelled does not move any more"


def test_without_anything_to_do_there_is_nothing_to_go_on_with(credential: str) -> None:
    assert say(credential, "idle").json() == {"continue": False, "deployment": None}


def test_one_that_fails_says_why_and_may_try_again(deployment: Deployment, credential: str) -> None:
    assert say(credential, "failed", (0,), error="the disk is full").json()["continue"] is True
    assert (row_of(deployment).state, row_of(deployment).error) == ("failed", "the disk is full")
    say(credential, "receiving", (0, 1))
    assert row_of(deployment).state == "receiving"


def test_one_that_is_silent_is_lost_and_back_with_its_next_word(
    deployment: Deployment, credential: str, worker: Node
) -> None:
    Node.objects.filter(id=worker.id).update(state="lost")
    coordination.coordinate()
    assert row_of(deployment).state == "failed"
    say(credential, "receiving", (0,))
    worker.refresh_from_db()
    assert (worker.state, row_of(deployment).state) == ("ready", "receiving")


def test_nobody_is_sent_to_fetch_from_it(
    version: ModelVersion, owner: User, nodes: list[Node], worker: Node, credential: str
) -> None:
    everybody = [*(node.id for node in nodes), worker.id]
    made = services.create(actor_of(owner), "vision/bytelm", 1, target_workers=everybody)
    named = {
        source for row in queries.workers(made.id) for lane in row.lanes for source in lane
    }  # fmt: skip
    assert worker.id not in named
    assert row_of(made).lanes == []
    say(credential, "failed")
    say(credential, "receiving", (0,))
    assert row_of(made).lanes == [], "it does not join the mesh when it is back either"
    everyone = services.create(actor_of(owner), "vision/bytelm", 1)
    assert not Worker.objects.filter(deployment=everyone, node=worker).exists(), "not without being named"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"chunks_received": [0, 3]}, "there is no chunk 3; the model has 3, counted from 0"),
        ({"status": "complete", "chunks_received": [0]}, "complete, with 1 of 3 chunks received"),
        ({"status": "dancing"}, "status"),
        ({"chunks_received": ["all"]}, "chunks_received"),
        ({"bandwidth_in": -1}, "bandwidth_in"),
    ],
)
def test_what_cannot_be_is_refused_with_the_numbers(
    change: dict[str, Any], sentence: str, deployment: Deployment, credential: str
) -> None:
    refused = call("heartbeat", credential, {"worker_id": "w-17", "status": "receiving", **change})
    assert refused.status_code == 400
    assert sentence in refused.json()["detail"]
    assert row_of(deployment).state == "idle"


@pytest.mark.parametrize(
    "change", [{"worker_id": ""}, {"worker_id": "../x"}, {"hostname": "a b"}, {"available_storage": -1}]
)
def test_a_registration_that_cannot_be_is_refused(change: dict[str, Any], db: None) -> None:
    assert call("register", BOOTSTRAP, {**ME, **change}).status_code == 400
    assert not Node.objects.exists()


def test_who_is_unknown_or_somebody_else_is_refused(
    credential: str, deployment: Deployment, nodes: list[Node]
) -> None:
    for secret in ("", "tmb_invented", "tmn_invented"):
        assert call("register", secret, ME).status_code == 401
        assert say(secret).status_code == 401
    assert say(credential, worker_id="w-18").status_code == 404
    assert say(credential, deployment_id="dep-of-others").status_code == 404
    _, of_an_agent = clusters.join(BOOTSTRAP, description("with-agent"))
    assert say(of_an_agent).status_code == 404, "an agent speaks by its session"


def test_a_revoked_worker_is_told_so(worker: Node, credential: str) -> None:
    Node.objects.filter(id=worker.id).update(revoked_ms=1)
    refused = say(credential)
    assert (refused.status_code, refused.json()["code"]) == (401, "credential_revoked")
