"""The stream that carries all attempts' batches up and their acknowledgements down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from agent.channel import authorisation, sentence_of
from agent.identity import Identity
from agent.session import Backoff
from agent.uplink.attempt import AttemptUplink
from agent.uplink.batch import Ack, Batch
from agent.uplink.cursors import Source
from trainmaster_wire.agent.v1 import uplink_pb2 as pb
from trainmaster_wire.agent.v1 import uplink_pb2_grpc

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.25  # a line is on its way at most this long after it was written

_SOURCES = {
    Source.LOG: pb.Batch.LOG,
    Source.SPOOL: pb.Batch.SPOOL,
    Source.CHECKPOINT: pb.Batch.CHECKPOINT,
    Source.ARTIFACT: pb.Batch.ARTIFACT,
}
_FROM_WIRE = {value: key for key, value in _SOURCES.items()}


class Pusher:
    """Runs for as long as the agent; attempts join and leave."""

    def __init__(self, channel: grpc.aio.Channel, identity: Callable[[], Awaitable[Identity]]) -> None:
        self._channel, self._identity = channel, identity
        self._uplinks: dict[str, AttemptUplink] = {}
        self._acks: list[Ack] = []
        self._wake = asyncio.Event()
        self._refused: set[str] = set()

    def add(self, uplink: AttemptUplink) -> None:
        self._uplinks[uplink.attempt_id] = uplink
        self._wake.set()

    def remove(self, attempt_id: str) -> None:
        self._uplinks.pop(attempt_id, None)

    async def run(self) -> None:
        identity = await self._identity()
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                await self._converse(identity)
            except (grpc.aio.AioRpcError, ConnectionError) as error:
                cause = sentence_of(error) if isinstance(error, grpc.aio.AioRpcError) else str(error)
                log.debug("the uplink was cut: %s", cause)  # the session says it louder
            if time.monotonic() - began > 10:
                backoff.reset()
            await self._wait_without_server(backoff.draw())

    async def _wait_without_server(self, seconds: float) -> None:
        """Uploads and the bounds on disk go on."""
        self._acks.clear()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await asyncio.to_thread(self._round, [])
            for uplink in self._uplinks.values():
                uplink.send_again()
            await asyncio.sleep(min(left, 1.0))

    async def _converse(self, identity: Identity) -> None:
        for uplink in self._uplinks.values():
            uplink.send_again()
        stub: Any = uplink_pb2_grpc.UplinkStub(self._channel)
        call = stub.Push(metadata=authorisation(identity))
        listening = asyncio.create_task(self._listen(call))
        try:
            while not listening.done():
                self._wake.clear()
                acks, self._acks = self._acks, []
                batches = await asyncio.to_thread(self._round, acks)
                for batch in batches:
                    await _write(call, batch)
                if not self._acks:
                    await self._sleep()
            listening.result()
            raise ConnectionError("the server closed it")
        except ConnectionError:
            if not listening.done():
                await asyncio.wait({listening}, timeout=5)
            if listening.done():
                listening.result()  # knows why the write failed
            raise
        finally:
            call.cancel()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _sleep(self) -> None:
        # Not wait_for: before Python 3.12 it can swallow a cancellation that comes with the wake-up.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await self._wake.wait()

    async def _listen(self, call: Any) -> None:
        async for message in call:
            source = _FROM_WIRE.get(message.source)
            if source is None:
                continue
            if message.error and message.attempt_id not in self._refused:
                self._refused.add(message.attempt_id)
                log.warning("the server refuses data of %s: %s", message.attempt_id, message.error)
            self._acks.append(
                Ack(message.attempt_id, message.rank, source, message.next_offset, message.error)
            )
            self._wake.set()

    def _round(self, acks: list[Ack]) -> list[Batch]:
        """Reads files, so it runs in a thread; never two at a time."""
        for ack in acks:
            uplink = self._uplinks.get(ack.attempt_id)
            if uplink is not None:
                uplink.acknowledge(ack)
        now = time.monotonic()
        batches: list[Batch] = []
        for uplink in list(self._uplinks.values()):
            try:
                batches += uplink.step(now)
            except OSError as error:  # a full disk of this node; the files are still there afterwards
                log.warning("the uplink of %s cannot go on: %s", uplink.attempt_id, error)
        return batches


async def _write(call: Any, batch: Batch) -> None:
    try:
        await call.write(_message(batch))
    except (asyncio.InvalidStateError, grpc.aio.AioRpcError) as error:
        raise ConnectionError("the call is over") from error


def _message(batch: Batch) -> pb.Batch:
    message = pb.Batch(
        attempt_id=batch.attempt_id,
        rank=batch.rank,
        source=_SOURCES[batch.source],
        offset=batch.offset,
        next_offset=batch.next_offset,
        data=batch.data,
        at_ms=time.time_ns() // 1_000_000,
    )
    if batch.checkpoint is not None:
        uploaded = batch.checkpoint
        message.checkpoint.CopyFrom(
            pb.CheckpointUploaded(
                step=uploaded.step,
                manifest_id=uploaded.manifest_id,
                manifest_json=uploaded.manifest_json,
                source_url=uploaded.source_url,
                metrics_json=uploaded.metrics_json,
                saved_at_ms=uploaded.saved_at_ms,
                etags=uploaded.etags,
            )
        )
    if batch.artifact is not None:
        stored = batch.artifact
        message.artifact.CopyFrom(
            pb.ArtifactUploaded(
                name=stored.name,
                manifest_id=stored.manifest_id,
                manifest_json=stored.manifest_json,
                source_url=stored.source_url,
                etags=stored.etags,
            )
        )
    return message
