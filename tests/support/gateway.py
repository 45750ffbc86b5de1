"""A gateway without a database: a real gRPC server that speaks the agents' protocol and remembers what it heard."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import grpc
import grpc.aio

from platform_core.distribution.content.manifest import Manifest, to_json
from trainmaster_wire.agent.v1 import (
    enrolment_pb2,
    enrolment_pb2_grpc,
    manifest_pb2,
    session_pb2,
    session_pb2_grpc,
    uplink_pb2,
    uplink_pb2_grpc,
)
from webapp.nodes.certificates import NodeAuthority

BOOTSTRAP_TOKEN = "boot-token"
T = TypeVar("T")


class Gateway:
    """State that a test reads, and the verbs it uses. Everything runs on the test's event loop."""

    def __init__(self) -> None:
        self.joins: list[enrolment_pb2.JoinRequest] = []
        self.hellos: list[session_pb2.Hello] = []
        self.heartbeats: list[session_pb2.Heartbeat] = []
        self.attempts: dict[str, list[session_pb2.AttemptObserved]] = defaultdict(list)
        self.observed = session_pb2.Observed()
        self.batches: list[uplink_pb2.Batch] = []
        self.data: dict[tuple[str, int, int], list[uplink_pb2.Batch]] = defaultdict(list)
        self.manifests: dict[str, str] = {}  # as JSON, by id
        self.asked: list[str] = []  # for which of them, in order
        self.revoked: set[str] = set()
        self.refusal: grpc.StatusCode | None = None  # with which every session is answered
        self.acknowledges = True
        self.acknowledges_heartbeats = True
        self.lost_after_ms = 30_000
        self.clock_ahead_ms = 0
        self.authority = NodeAuthority("secret of the tests")
        self.address = ""
        self._wanted = session_pb2.Wanted()
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    async def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self._server = grpc.aio.server()
        enrolment_pb2_grpc.add_EnrolmentServicer_to_server(_Enrolment(self), self._server)
        session_pb2_grpc.add_AgentSessionServicer_to_server(_Session(self), self._server)
        uplink_pb2_grpc.add_UplinkServicer_to_server(_Uplink(self), self._server)
        if credentials is None:
            port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        else:
            port = self._server.add_secure_port(f"127.0.0.1:{port}", credentials)
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0)
            self._server = None

    async def restart(self) -> None:
        """Away for a moment, back at the same address."""
        await self.stop()
        await self.start(int(self.address.rpartition(":")[2]))

    async def want(self, *attempts: session_pb2.AttemptWanted) -> None:
        wanted = session_pb2.Wanted(revision=self._wanted.revision + 1, attempts=attempts)
        wanted.deployments.extend(self._wanted.deployments)
        wanted.activations.extend(self._wanted.activations)
        await self._want(wanted)

    async def want_deployments(self, *deployments: session_pb2.DeploymentWanted) -> None:
        wanted = session_pb2.Wanted(revision=self._wanted.revision + 1, deployments=deployments)
        wanted.attempts.extend(self._wanted.attempts)
        wanted.activations.extend(self._wanted.activations)
        await self._want(wanted)

    async def want_activations(self, *activations: session_pb2.ActivationWanted) -> None:
        wanted = session_pb2.Wanted(revision=self._wanted.revision + 1, activations=activations)
        wanted.attempts.extend(self._wanted.attempts)
        wanted.deployments.extend(self._wanted.deployments)
        await self._want(wanted)

    async def _want(self, wanted: session_pb2.Wanted) -> None:
        async with self._changed:
            self._wanted = wanted
            self._changed.notify_all()

    def artifact(self, manifest: Manifest, url: str) -> session_pb2.ArtifactReference:
        """To be named in an order; who asks for the manifest gets it."""
        self.manifests[manifest.id] = to_json(manifest)
        return session_pb2.ArtifactReference(manifest_id=manifest.id, source_url=url)

    async def newer_wish(self, told: int) -> session_pb2.Wanted:
        """What is wanted, once an agent has said hello and it is not the one told."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.hellos and self._wanted.revision != told)
            return self._wanted

    async def until(self, condition: Callable[[], T | None], seconds: float = 30) -> T:
        """Waits for news until the condition holds, and gives what it gave."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(condition)
                found = condition()
        except TimeoutError:
            raise AssertionError(f"not within {seconds} s; {self.story()}") from None
        assert found is not None
        return found

    async def until_phase(
        self, attempt_id: str, phase: int, seconds: float = 30
    ) -> session_pb2.AttemptObserved:
        return await self.until(
            lambda: next((each for each in self.attempts[attempt_id] if each.phase == phase), None), seconds
        )

    async def until_drained(self, attempt_id: str, seconds: float = 30) -> session_pb2.AttemptObserved:
        return await self.until(
            lambda: next((each for each in self.attempts[attempt_id] if each.uplink_drained), None), seconds
        )

    def log(self, attempt_id: str, rank: int) -> str:
        return self._bytes(attempt_id, rank, uplink_pb2.Batch.LOG).decode()

    def spool(self, attempt_id: str, rank: int) -> str:
        return self._bytes(attempt_id, rank, uplink_pb2.Batch.SPOOL).decode()

    def checkpoints(self, attempt_id: str) -> list[uplink_pb2.CheckpointUploaded]:
        return [each.checkpoint for each in self.batches if each.HasField("checkpoint")]

    def _bytes(self, attempt_id: str, rank: int, source: int) -> bytes:
        """What was kept, without overlap, and without gap but for lines of the spool that are for nobody."""
        kept = sorted(self.data[attempt_id, rank, source], key=lambda batch: batch.offset)
        for earlier, later in pairwise(kept):
            follows = earlier.next_offset == later.offset
            if source == uplink_pb2.Batch.SPOOL:
                follows = earlier.next_offset <= later.offset
            assert follows, f"{earlier.next_offset} is followed by {later.offset}"
        return b"".join(batch.data for batch in kept)

    def story(self) -> str:
        phases = {
            key: [session_pb2.AttemptObserved.Phase.Name(each.phase) for each in value]
            for key, value in self.attempts.items()
        }
        last = {key: (value[-1].exit_code, value[-1].reason) for key, value in self.attempts.items() if value}
        return f"{len(self.hellos)} hellos, attempts {phases}, last {last}, {len(self.batches)} batches"

    async def heard(self, observed: session_pb2.Observed) -> None:
        async with self._changed:
            self.observed = observed
            for attempt in observed.attempts:
                story = self.attempts[attempt.attempt_id]
                if not story or story[-1] != attempt:
                    story.append(attempt)
            self._changed.notify_all()

    async def keep(self, batch: uplink_pb2.Batch) -> None:
        """As the real one: a batch is recognised by its offset alone."""
        async with self._changed:
            self.batches.append(batch)
            kept = self.data[batch.attempt_id, batch.rank, batch.source]
            if all(each.offset != batch.offset for each in kept):
                kept.append(batch)
            self._changed.notify_all()

    def credential_of(self, context: Any) -> str:
        metadata = dict(context.invocation_metadata())
        return str(metadata.get("authorization", "")).removeprefix("Bearer ")

    async def admit(self, context: Any) -> str:
        """The node of this call; ends the call when the credential is wrong or revoked."""
        if self.refusal is not None:
            await context.abort(self.refusal, "Team vision has no secret TEMP_KEY")
        credential = self.credential_of(context)
        unauthenticated = grpc.StatusCode.UNAUTHENTICATED
        if credential in self.revoked:
            sentence = "The credential of this node was revoked"
            await context.abort(unauthenticated, sentence, (("error-code", "credential_revoked"),))
        if not credential.startswith("credential-of-"):
            await context.abort(unauthenticated, "The credential is not one of ours")
        return credential.removeprefix("credential-of-")


class _Enrolment(enrolment_pb2_grpc.EnrolmentServicer):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Join(self, request: enrolment_pb2.JoinRequest, context: Any) -> enrolment_pb2.JoinReply:
        if request.bootstrap_token != BOOTSTRAP_TOKEN:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "The bootstrap token is not valid")
        self._gateway.joins.append(request)
        node_id = request.node_id or f"node-{len(self._gateway.joins)}"
        return enrolment_pb2.JoinReply(node_id=node_id, credential=f"credential-of-{node_id}")


class _Session(session_pb2_grpc.AgentSessionServicer):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Connect(
        self, request_iterator: AsyncIterator[session_pb2.FromAgent], context: Any
    ) -> AsyncIterator[session_pb2.FromServer]:
        gateway = self._gateway
        node_id = await gateway.admit(context)
        outgoing: asyncio.Queue[session_pb2.FromServer | None] = asyncio.Queue()
        tasks = [
            asyncio.create_task(self._listen(node_id, request_iterator, outgoing)),
            asyncio.create_task(self._tell(outgoing)),
        ]
        try:
            while (message := await outgoing.get()) is not None:
                yield message
        finally:
            for task in tasks:
                task.cancel()

    async def Manifest(
        self, request: manifest_pb2.ManifestRequest, context: Any
    ) -> manifest_pb2.ManifestReply:
        gateway = self._gateway
        await gateway.admit(context)
        gateway.asked.append(request.manifest_id)
        if (text := gateway.manifests.get(request.manifest_id)) is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "It is not wanted of this node")
        return manifest_pb2.ManifestReply(manifest_json=text.encode())

    async def _listen(self, node_id: str, messages: Any, outgoing: Any) -> None:
        gateway = self._gateway
        async for message in messages:
            kind = message.WhichOneof("message")
            if kind == "hello":
                gateway.hellos.append(message.hello)
                await gateway.heard(message.hello.observed)
                welcome = session_pb2.Welcome(
                    node_id=node_id,
                    heartbeat_seconds=1,
                    authority=gateway.authority.pem,
                    lost_after_ms=gateway.lost_after_ms,
                    outbound_hosts=["127.0.0.0/8"],
                )
                if request := message.hello.certificate_request:
                    welcome.certificate = gateway.authority.certificate_for(node_id, request)
                await outgoing.put(session_pb2.FromServer(welcome=welcome))
            elif kind == "heartbeat":
                gateway.heartbeats.append(message.heartbeat)
                await gateway.heard(gateway.observed)
                now_ms = time.time_ns() // 1_000_000 + self._gateway.clock_ahead_ms
                ack = session_pb2.HeartbeatAck(sequence=message.heartbeat.sequence, at_ms=now_ms)
                if gateway.acknowledges_heartbeats:
                    await outgoing.put(session_pb2.FromServer(heartbeat_ack=ack))
            else:
                await gateway.heard(message.observed)
        await outgoing.put(None)

    async def _tell(self, outgoing: Any) -> None:
        told = -1
        while True:
            wanted = await self._gateway.newer_wish(told)
            told = wanted.revision
            await outgoing.put(session_pb2.FromServer(wanted=wanted))


class _Uplink(uplink_pb2_grpc.UplinkServicer):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Push(
        self, request_iterator: AsyncIterator[uplink_pb2.Batch], context: Any
    ) -> AsyncIterator[uplink_pb2.Ack]:
        await self._gateway.admit(context)
        async for batch in request_iterator:
            await self._gateway.keep(batch)
            if self._gateway.acknowledges:
                yield uplink_pb2.Ack(
                    attempt_id=batch.attempt_id,
                    rank=batch.rank,
                    source=batch.source,
                    next_offset=batch.next_offset,
                )


@asynccontextmanager
async def running_gateway() -> AsyncIterator[Gateway]:
    gateway = Gateway()
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()
