"""A model from its registration to the nodes, through the services; the agents' reports are said by hand."""

from collections.abc import Callable

import pytest
from django.conf import LazySettings
from rest_framework.test import APIClient

from platform_core.distribution.planning.forest import STORE
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.deployments.conftest import SIZE
from tests.webapp.orders import wanted_on
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.deployments import coordination, queries, services
from webapp.deployments.models import Deployment, Worker
from webapp.events.queries import story
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion


def report(
    deployment: Deployment, node: str, state: str, done: int, source: str = "store", error: str = ""
) -> None:
    services.report(
        node,
        DeploymentObserved(
            deployment_id=deployment.id, state=TransferState(state), bytes_done=done, bytes_total=SIZE,
            chunks_done=b"\x01", rate_in=1e6, source=source, error_code="disk_full" if error else "", error=error,
        ),
    )  # fmt: skip


def test_a_model_that_moved_between_the_stores_is_read_where_it_is_now(
    deployment: Deployment, version: ModelVersion, settings: LazySettings
) -> None:
    settings.STORE_URL, settings.COLD_STORE_URL = "file:///somewhere", "file:///cold"
    Deployment.objects.update(source_url="file:///somewhere/model/up-1")
    Manifest.objects.filter(id=version.manifest_id).update(source_url="file:///cold/model/up-1")
    node = queries.workers(deployment.id)[0].node_id
    ((wanted,),) = queries.wanted_on([node]).values()
    assert wanted.artifact.source_url == "file:///cold/model/up-1"


def test_it_goes_through_its_phases_to_complete(deployment: Deployment) -> None:
    workers = queries.workers(deployment.id)
    pullers = [worker.node_id for worker in workers for lane in worker.lanes if lane == [STORE]]
    assert len(pullers) == len(workers[0].lanes), "each lane is pulled from the store by one node"
    report(deployment, workers[0].node_id, "receiving", 100)
    assert queries.find(deployment.id).state == "downloading"
    report(deployment, workers[1].node_id, "receiving", 50, source=workers[0].node_id)
    assert queries.find(deployment.id).state == "distributing"
    for worker in workers:
        report(deployment, worker.node_id, "verifying", SIZE)
    assert queries.find(deployment.id).state == "verifying"
    for worker in workers:
        report(deployment, worker.node_id, "complete", SIZE)
    row = queries.find(deployment.id)
    assert (row.state, queries.progress_of(row).percent) == ("complete", 100)
    kinds = [event.kind for event in story(f"deployment:{deployment.id}")]
    assert kinds[0] == "DeploymentCreated"
    assert kinds[-1] == "DeploymentComplete"


def test_one_full_disk_fails_that_node_alone(deployment: Deployment) -> None:
    *others, last = queries.workers(deployment.id)
    report(deployment, last.node_id, "failed", 0, error="needs 10 MiB, has 1 MiB")
    for worker in others:
        report(deployment, worker.node_id, "complete", SIZE)
    row = queries.find(deployment.id)
    assert row.state == "complete"
    assert "needs 10 MiB" in row.reason


def test_a_lost_node_counts_as_failed_and_completes_when_it_is_back(deployment: Deployment) -> None:
    *others, last = queries.workers(deployment.id)
    Node.objects.filter(id=last.node_id).update(state="lost")
    coordination.coordinate()
    assert Worker.objects.get(id=last.id).state == "failed"
    for worker in others:
        report(deployment, worker.node_id, "complete", SIZE)
    report(deployment, last.node_id, "receiving", 100)
    report(deployment, last.node_id, "complete", SIZE)
    row = queries.find(deployment.id)
    assert queries.progress_of(row).workers_complete == 4
    assert row.reason == ""


def test_what_is_wanted_of_a_node_is_the_two_newest_versions_not_the_cancelled(
    deployment: Deployment, version: ModelVersion, owner: User, nodes: list[Node]
) -> None:
    node = nodes[0].id
    assert [wanted.deployment_id for wanted in wanted_on(node)] == [deployment.id]
    for _ in range(2):
        registry.register(actor_of(owner), "vision", "bytelm", manifest=version.manifest_id or "")
    second = services.create(actor_of(owner), "vision/bytelm", 2)
    third = services.create(actor_of(owner), "vision/bytelm", 3)
    assert {wanted.deployment_id for wanted in wanted_on(node)} == {second.id, third.id}
    services.cancel(actor_of(owner), third.id)
    assert {wanted.deployment_id for wanted in wanted_on(node)} == {second.id, deployment.id}


def test_the_original_rest_calls(
    api: Callable[..., APIClient], owner: User, version: ModelVersion, nodes: list[Node]
) -> None:
    client = api(owner)
    body = {"model_id": "vision/bytelm", "version": 1, "target_workers": ["node-0", nodes[1].id]}
    made = client.post("/api/v1/deployments", body, format="json").json()
    assert (made["status"], made["workers"]) == ("init", 2)
    assert made["estimated_time_seconds"] > 0
    told = client.get(f"/api/v1/deployments/{made['id']}").json()
    assert (told["progress"], told["workers_complete"], told["workers_failed"]) == (0, 0, 0)
    assert client.delete(f"/api/v1/deployments/{made['id']}").json()["status"] == "cancelled"
    unknown = client.post("/api/v1/deployments", {**body, "target_workers": ["nowhere"]}, format="json")
    assert "nowhere" in unknown.json()["detail"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://169.254.169.254/", "s3:/x"])
def test_the_platform_reads_no_source_that_was_not_allowed(url: str, vision: Team, owner: User) -> None:
    with pytest.raises(TrainmasterError, match=r"TRAINMASTER_SOURCE_PREFIXES|the bucket is missing"):
        registry.register(actor_of(owner), "vision", "stolen", source_url=url)


def test_a_request_to_try_again_reaches_a_failed_node_at_once(deployment: Deployment, owner: User) -> None:
    *_, last = queries.workers(deployment.id)
    report(deployment, last.node_id, "failed", 100, error="the disk is full")
    before = wanted_on(last.node_id)[0]
    services.retry(actor_of(owner), deployment.id)
    after = wanted_on(last.node_id)[0]
    assert after.retry == before.retry + 1, "a changed order is what an agent acts on"
    assert Worker.objects.get(id=last.id).state == "idle"


def test_who_sends_damaged_bytes_is_named_once(deployment: Deployment) -> None:
    sender, receiver, *_ = queries.workers(deployment.id)
    said = DeploymentObserved(
        deployment_id=deployment.id, state=TransferState.RECEIVING, bytes_done=5, bytes_total=SIZE,
        source=sender.node_id, retries=1, distrusted=(sender.node_id,),
    )  # fmt: skip
    services.report(receiver.node_id, said)
    services.report(receiver.node_id, said)
    named = [line for line in story(f"deployment:{deployment.id}") if line.kind == "DamagedBytesRefused"]
    assert len(named) == 1
    assert (
        f"{sender.node.hostname} sent {receiver.node.hostname} bytes with another SHA-256" in named[0].cause
    )


def test_a_failed_worker_leaves_the_mesh_and_joins_it_again_when_it_is_back(deployment: Deployment) -> None:
    first, *others = queries.workers(deployment.id)
    report(deployment, first.node_id, "failed", 100, error="the disk is full")
    left = queries.workers(deployment.id)
    fed = [source for worker in left if worker.id != first.id for lane in worker.lanes for source in lane]
    assert first.node_id not in fed
    report(deployment, first.node_id, "receiving", 200)
    again = Worker.objects.get(id=first.id)
    assert again.seated
    assert all(lane[0] in {worker.node_id for worker in others} for lane in again.lanes), "as a leaf"
