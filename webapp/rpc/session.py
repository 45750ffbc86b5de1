"""The session of one agent: its observed state comes in, its wanted state goes out."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from django.conf import settings

from platform_core.errors import TrainmasterError
from platform_core.trace_context import trace_id
from trainmaster import structured_logs
from trainmaster_wire.agent.v1 import hashing_pb2, manifest_pb2, session_pb2, session_pb2_grpc
from trainmaster_wire.conversion import to_wire
from webapp.base.identity import now_ms
from webapp.datasets import services as datasets
from webapp.datasets.services import Hashed
from webapp.nodes import services as clusters
from webapp.rpc import bounds, observed, wanted
from webapp.rpc.batcher import Batcher
from webapp.rpc.database import in_database
from webapp.rpc.observed import Report
from webapp.rpc.revisions import Watch, Watcher
from webapp.rpc.status import bearer, errors_become_status

log = logging.getLogger(__name__)
MANIFESTS_AT_ONCE = 16  # on their way out: some megabytes each for a very large model


class SessionServicer(session_pb2_grpc.AgentSessionServicer):
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._observe = Batcher(observed.observe)
        self._wanted = Batcher(wanted.wanted_states)
        self._manifests = Batcher(wanted.manifests)
        self._sending = asyncio.Semaphore(MANIFESTS_AT_ONCE)

    async def Connect(
        self, request_iterator: AsyncIterator[session_pb2.FromAgent], context: Any
    ) -> AsyncIterator[session_pb2.FromServer]:
        async with errors_become_status(context):
            node_id = await in_database(clusters.authenticate, bearer(context))
            structured_logs.bind_only(node=node_id)
            watch = Watch()
            outgoing: asyncio.Queue[session_pb2.FromServer] = asyncio.Queue(maxsize=64)
            newest: asyncio.Queue[Report] = asyncio.Queue(maxsize=1)
            tasks = [
                asyncio.create_task(self._listen(node_id, request_iterator, outgoing, newest, watch)),
                asyncio.create_task(self._store_observed(newest)),
                asyncio.create_task(self._send_wanted(node_id, outgoing, watch)),
                asyncio.create_task(_until_replaced(node_id, watch)),
            ]
            try:
                while True:
                    message = await _next(outgoing, tasks)
                    if message is None:
                        break
                    yield message
            finally:
                self._watcher.end(node_id, watch)
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await task

    async def Manifest(
        self, request: manifest_pb2.ManifestRequest, context: Any
    ) -> manifest_pb2.ManifestReply:
        async with errors_become_status(context):
            node_id = await in_database(clusters.authenticate, bearer(context))
            text = await self._manifests((node_id, request.manifest_id))
            if text is None:
                sentence = f"Manifest {request.manifest_id} is not wanted of this node (any more)"
                raise TrainmasterError("not_allowed", sentence)
            await self._sending.acquire()
            context.add_done_callback(lambda _: self._sending.release())  # once it has left
            return manifest_pb2.ManifestReply(manifest_json=text)
        raise AssertionError("unreachable: the context manager ends the call")

    async def HashFiles(self, request: hashing_pb2.HashRequest, context: Any) -> hashing_pb2.HashReply:
        async with errors_become_status(context):
            node_id = await in_database(clusters.authenticate, bearer(context))
            done = [Hashed(file.id, file.etag, file.part_json, file.error) for file in request.done]
            held = list(request.held)
            batch = await in_database(datasets.exchange_hashes, node_id, request.snapshot_id, done, held)
            return hashing_pb2.HashReply(
                files=[hashing_pb2.FileToHash(**asdict(file)) for file in batch.files],
                chunk_size=batch.sizes.chunk, piece_size=batch.sizes.piece, lease_seconds=datasets.LEASE_SECONDS,
            )  # fmt: skip
        raise AssertionError("unreachable: the context manager ends the call")

    async def _listen(
        self,
        node_id: str,
        messages: AsyncIterator[session_pb2.FromAgent],
        outgoing: asyncio.Queue[session_pb2.FromServer],
        newest: asyncio.Queue[Report],
        watch: Watch,
    ) -> None:
        """Reads all messages. Never waits until observed state is stored: the heartbeats behind it would be late."""
        greeted = False
        async for message in messages:
            kind = message.WhichOneof("message")
            if not greeted and kind != "hello":
                raise TrainmasterError("request_invalid", what="the session", why="it begins with Hello")
            match kind:
                case "hello":
                    welcome = _welcome(node_id, message.hello)
                    await in_database(clusters.hello, node_id, bounds.description(message.hello.node))
                    await self._observe(Report(node_id, message.hello.observed, complete=True))
                    await outgoing.put(session_pb2.FromServer(welcome=welcome))
                    greeted = True
                    if self._watcher.begin(node_id, watch):
                        await in_database(clusters.note_replaced_session, node_id)
                case "heartbeat":
                    heartbeat = message.heartbeat
                    await clusters.heartbeat(node_id, bounds.telemetry(heartbeat.telemetry))
                    if heartbeat.HasField("notice_seconds"):
                        await in_database(clusters.heard_notice, node_id, heartbeat.notice_seconds)
                    ack = session_pb2.HeartbeatAck(sequence=heartbeat.sequence, at_ms=now_ms())
                    await outgoing.put(session_pb2.FromServer(heartbeat_ack=ack))
                case "observed":
                    if newest.full():  # each says all that the node has: the one before is contained in it
                        newest.get_nowait()
                        newest.task_done()
                    newest.put_nowait(Report(node_id, message.observed, complete=False))
        await newest.join()

    async def _store_observed(self, newest: asyncio.Queue[Report]) -> None:
        while True:
            await self._observe(await newest.get())
            newest.task_done()

    async def _send_wanted(
        self, node_id: str, outgoing: asyncio.Queue[session_pb2.FromServer], watch: Watch
    ) -> None:
        """Sends the whole wanted state after the Hello, and again whenever it has changed."""
        ordered: set[str] = set()
        while True:
            await watch.changed.wait()
            watch.changed.clear()
            state = await self._wanted(node_id)
            watch.sent = state.revision
            await outgoing.put(session_pb2.FromServer(wanted=to_wire(state)))
            known, ordered = ordered, {attempt.attempt_id for attempt in state.attempts}
            for attempt in state.attempts:
                if attempt.launch and attempt.attempt_id not in known:
                    trace = trace_id(attempt.launch.traceparent) or ""
                    log.info(
                        "%s of %s is ordered",
                        attempt.attempt_id,
                        attempt.launch.job_id,
                        extra={"trace": trace},
                    )


async def _until_replaced(node_id: str, watch: Watch) -> None:
    await watch.replaced.wait()
    raise TrainmasterError("session_replaced", node=node_id)


def _welcome(node_id: str, hello: session_pb2.Hello) -> session_pb2.Welcome:
    authority = clusters.node_authority()
    welcome = session_pb2.Welcome(
        node_id=node_id,
        heartbeat_seconds=settings.HEARTBEAT_SECONDS,
        authority=authority.pem,
        lost_after_ms=settings.LOST_AFTER_SECONDS * 1000,
        outbound_hosts=settings.OUTBOUND_HOSTS,
    )
    if hello.certificate_request:
        welcome.certificate = authority.certificate_for(node_id, hello.certificate_request)
    return welcome


async def _next(
    outgoing: asyncio.Queue[session_pb2.FromServer], tasks: list[asyncio.Task[None]]
) -> session_pb2.FromServer | None:
    """The next message to send; None when the agent has hung up. An error of a task becomes the session's error."""
    getter = asyncio.create_task(outgoing.get())
    try:
        done, _ = await asyncio.wait([getter, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        getter.cancel()  # without effect on one that is done
    if getter in done:
        return getter.result()
    for task in tasks:
        if task in done and (error := task.exception()) is not None:
            raise error
    return None
