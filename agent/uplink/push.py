"""The stream that carries all attempts' batches up and their acknowledgements down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
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
    Source.VALUE: pb.Batch.VALUE,
}
_FROM_WIRE = {value: key for key, value in _SOURCES.items()}
_LARGEST_MESSAGE = 60 << 20  # the gateway takes 64 MiB, and cuts the stream of all attempts for a larger one
_DELAYS = (1.0, 2.0, 5.0, 15.0)
_LONGEST_CAUSE = 300


@dataclass(slots=True)
class _Trouble:
    """Why the uplink of one attempt cannot go on just now."""

    cause: str
    failures: int
    not_before: float


class Pusher:
    """Runs for as long as the agent; attempts join and leave."""

    def __init__(self, channel: grpc.aio.Channel, identity: Callable[[], Awaitable[Identity]]) -> None:
        self._channel, self._identity = channel, identity
        self._uplinks: dict[str, AttemptUplink] = {}
        self._acks: list[Ack] = []
        self._wake = asyncio.Event()
        self._refused: set[str] = set()
        self._troubles: dict[str, _Trouble] = {}

    def add(self, uplink: AttemptUplink) -> None:
        self._uplinks[uplink.attempt_id] = uplink
        self._wake.set()

    def remove(self, attempt_id: str) -> None:
        self._uplinks.pop(attempt_id, None)
        self._troubles.pop(attempt_id, None)
        self._refused.discard(attempt_id)

    def uploads_waiting_ms(self) -> float:
        """For how long files of attempts have waited for a store that does not take them; 0 if it does."""
        failing = [uplink.failing_seconds for uplink in list(self._uplinks.values())]
        return 1000 * max(failing, default=0.0)

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
                for message in await asyncio.to_thread(self._round, acks):
                    await _write(call, message)
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
                cause = message.error[:_LONGEST_CAUSE]
                log.warning("the server refuses data of %s: %s", message.attempt_id, cause)
            self._acks.append(
                Ack(message.attempt_id, message.rank, source, message.next_offset, message.error)
            )
            self._wake.set()

    def _round(self, acks: list[Ack]) -> list[pb.Batch]:
        """Reads files, so it runs in a thread; never two at a time.

        Whatever is wrong with one attempt delays that attempt, and neither the others nor the agent.
        """
        answers: dict[str, list[Ack]] = {}
        for ack in acks:
            answers.setdefault(ack.attempt_id, []).append(ack)
        now = time.monotonic()
        messages: list[pb.Batch] = []
        for attempt_id, uplink in list(self._uplinks.items()):
            for ack in answers.get(attempt_id, ()):
                with self._isolated(uplink, now):
                    uplink.acknowledge(ack)
            trouble = self._troubles.get(attempt_id)
            if trouble is None or now >= trouble.not_before:
                with self._isolated(uplink, now):
                    messages += _messages(uplink, now)
                    self._troubles.pop(attempt_id, None)
        return messages

    @contextlib.contextmanager
    def _isolated(self, uplink: AttemptUplink, now: float) -> Iterator[None]:
        """An error costs this attempt a delay."""
        try:
            yield
        except Exception as error:
            self._delay(uplink, error, now)

    def _delay(self, uplink: AttemptUplink, error: Exception, now: float) -> None:
        """A full disk of this node, or a fault of this program; the files are still there afterwards."""
        known = self._troubles.get(uplink.attempt_id)
        cause = (
            error.strerror if isinstance(error, OSError) and error.strerror else f"{error!r}"[:_LONGEST_CAUSE]
        )
        if known is None or known.cause != cause:
            where = None if isinstance(error, OSError) else error
            log.warning("the uplink of %s cannot go on: %s", uplink.attempt_id, cause, exc_info=where)
        failures = 0 if known is None else known.failures + 1
        delay = _DELAYS[min(failures, len(_DELAYS) - 1)]
        self._troubles[uplink.attempt_id] = _Trouble(cause, failures, now + delay)
        if not isinstance(error, OSError) and uplink.is_overdue(now):
            uplink.give_up(cause)


def _messages(uplink: AttemptUplink, now: float) -> Iterator[pb.Batch]:
    for batch in uplink.step(now):
        try:
            message = _message(batch)
        except (ValueError, TypeError) as error:
            uplink.refuse(batch, f"{error}"[:_LONGEST_CAUSE])
            continue
        if message.ByteSize() > _LARGEST_MESSAGE:
            uplink.refuse(
                batch, f"it has {message.ByteSize():,} bytes; {_LARGEST_MESSAGE:,} can be sent at once"
            )
        else:
            yield message


async def _write(call: Any, message: pb.Batch) -> None:
    try:
        await call.write(message)
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
        message.checkpoint.CopyFrom(pb.CheckpointUploaded(**asdict(batch.checkpoint)))
    if batch.artifact is not None:
        message.artifact.CopyFrom(pb.ArtifactUploaded(**asdict(batch.artifact)))
    if batch.value is not None:
        message.value.CopyFrom(pb.ValueFile(**asdict(batch.value)))
    return message
