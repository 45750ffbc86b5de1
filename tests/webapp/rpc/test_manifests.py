"""An order names a manifest; the node that it is wanted of asks for it, and no other gets it."""

import asyncio
from collections.abc import Callable

import grpc
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from platform_core.distribution.content.manifest import (
    Chunk,
    FileEntry,
    Manifest,
    ManifestBuilder,
    assemble,
    from_json,
    to_json,
)
from tests.webapp.conftest import credential_of
from tests.webapp.deployments.conftest import *  # noqa: F403  a model on its way to four nodes
from tests.webapp.jobs.conftest import SPEC, tick
from tests.webapp.rpc.agents import whole_gateway
from trainmaster_wire.agent.v1 import manifest_pb2, session_pb2_grpc
from trainmaster_wire.conversion import to_wire
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.checkpoints import services as checkpoints
from webapp.datasets import services as datasets
from webapp.deployments import services
from webapp.deployments.models import Deployment
from webapp.jobs import services as jobs
from webapp.jobs.models import Member
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion
from webapp.rpc.session import MANIFESTS_AT_ONCE
from webapp.rpc.wanted import manifests, wanted_states

GIB = 1 << 30


@pytest.fixture(autouse=True)
def nothing_is_kept_from_other_tests() -> None:
    artifact_queries.manifest_json.cache_clear()


def a_manifest(kind: str, content: bytes = b"bytes") -> Manifest:
    builder = ManifestBuilder(kind)
    builder.feed("train.py", content)
    return builder.finish()


def half_a_terabyte() -> Manifest:
    digest = "0123456789abcdef" * 4
    chunks = tuple(Chunk(n, 0, n * GIB, GIB, digest, (digest,) * 32) for n in range(466))
    file = FileEntry("weights.bin", len(chunks) * GIB, digest)
    return assemble("model", (file,), chunks, GIB // 32)


@pytest.mark.django_db(transaction=True)
def test_a_node_is_given_what_is_wanted_of_it_and_refused_what_is_not(
    version: ModelVersion, owner: User, nodes: list[Node], threads_that_leave: None
) -> None:
    services.create(actor_of(owner), "vision/bytelm", 1, target_workers=[nodes[0].id])
    other = artifacts.register(a_manifest("model"), "vision", "file:///elsewhere").id
    credentials = [credential_of(node) for node in nodes[:2]]

    async def ask(channel: grpc.aio.Channel, manifest_id: str, credential: str) -> str:
        request = manifest_pb2.ManifestRequest(manifest_id=manifest_id)
        call = session_pb2_grpc.AgentSessionStub(channel).Manifest(
            request, metadata=(("authorization", f"Bearer {credential}"),), timeout=20
        )
        try:
            return from_json((await call).manifest_json).id
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"

    async def talk() -> None:
        wanted = str(version.manifest_id)
        async with whole_gateway() as address, grpc.aio.insecure_channel(address) as channel:
            many = [ask(channel, wanted, credentials[0]) for _ in range(2 * MANIFESTS_AT_ONCE + 1)]
            assert set(await asyncio.gather(*many)) == {wanted}
            refused = f"PERMISSION_DENIED: Manifest {wanted} is not wanted of this node (any more)"
            assert await ask(channel, wanted, credentials[1]) == refused
            assert (await ask(channel, other, credentials[0])).startswith("PERMISSION_DENIED")
            assert (await ask(channel, "", credentials[0])).startswith("PERMISSION_DENIED")
            assert (await ask(channel, wanted, "tmn_nobody")).startswith("UNAUTHENTICATED")

    asyncio.run(talk())


def test_what_was_cancelled_is_not_given_any_more(
    deployment: Deployment, owner: User, nodes: list[Node]
) -> None:
    asked = (nodes[0].id, str(deployment.model_version.manifest_id))
    assert manifests([asked]) != [None]
    services.cancel(actor_of(owner), deployment.id)
    assert manifests([asked]) == [None]


def test_a_job_s_node_is_given_its_code_its_dataset_and_its_checkpoint(
    nodes: list[Node], quota: Callable[..., Quota], vision: Team, owner: User
) -> None:
    quota(vision)
    code, data, saved = (a_manifest(kind, kind.encode()) for kind in ("code", "dataset", "checkpoint"))
    artifacts.register(code, "vision", "file:///code")
    artifacts.register(data, "vision", "file:///data")
    snapshot = datasets.add_snapshot(actor_of(owner), "vision", "images", data.id, "train")
    alone = {**SPEC, "num_gpus": 1}
    earlier, _ = jobs.submit(actor_of(owner), alone)
    checkpoint = checkpoints.register(
        job_id=earlier.id, attempt=1, step=1, manifest_json=to_json(saved), source_url="file:///checkpoint",
        metrics={}, saved_ms=1, actor="node:n",
    )  # fmt: skip
    given = {"code": code.id, "dataset": snapshot.id, "purpose": "train", "resume_from": checkpoint.id}
    job, _ = jobs.submit(actor_of(owner), {**alone, **given})
    tick()
    at = Member.objects.get(attempt__job=job).node_id
    elsewhere = next(node.id for node in nodes if node.id != at)
    ids = [manifest.id for manifest in (code, data, saved)]
    texts = manifests([(at, each) for each in ids])
    assert [from_json(text).id for text in texts if text] == ids
    assert manifests([(elsewhere, each) for each in ids]) == [None] * 3


def test_an_order_for_half_a_terabyte_has_a_few_hundred_bytes_and_reads_no_manifest(
    owner: User, nodes: list[Node]
) -> None:
    manifest = artifacts.register(half_a_terabyte(), "vision", "file:///somewhere")
    registry.register(actor_of(owner), "vision", "huge", manifest=manifest.id)
    services.create(actor_of(owner), "vision/huge", 1)
    with CaptureQueriesContext(connection) as asked:
        states = wanted_states([node.id for node in nodes])
    assert len(to_json(half_a_terabyte())) > 1_000_000
    assert max(to_wire(state).ByteSize() for state in states) < 2_000
    assert not [query for query in asked if '"document"' in query["sql"]]


def test_a_thousand_nodes_that_ask_at_once_cost_the_database_one_reading(
    deployment: Deployment, nodes: list[Node]
) -> None:
    asked = [(node.id, str(deployment.model_version.manifest_id)) for node in nodes] * 250
    with CaptureQueriesContext(connection) as queries:
        given = manifests(asked)
    assert len({id(text) for text in given}) == 1
    assert len([query for query in queries if '"document"' in query["sql"]]) == 1
