"""Another agent that takes part in the same delivery: what it holds, and its pieces as it verifies them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio

from agent.transfer.disk.landing import Landing
from agent.transfer.peers import frames
from agent.transfer.store.sources import Pieces, SourceFailed
from platform_core.distribution.swarm.runs import Runs
from platform_core.node.wanted import Peer
from trainmaster_wire.agent.v1 import chunk_transfer_pb2 as wire
from trainmaster_wire.agent.v1 import manifest_pb2

SERVICE = "trainmaster_wire.agent.v1.ChunkTransfer"
# Of both sides. A piece goes in one frame and one write where it can: each costs as much as a thousand bytes.
STREAMS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.http2.write_buffer_size", 1 << 20),
    ("grpc.http2.bdp_probe", 0),  # the window is set above
)
OPTIONS: tuple[tuple[str, int], ...] = (
    *STREAMS,
    ("grpc.use_local_subchannel_pool", 1),  # a connection for each neighbour of each delivery
    # The time for a handshake, whatever it is called: over a full link it needs a second.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 4_000),
)
_T = TypeVar("_T")

SLOWEST = 256 << 10  # bytes per second: while a part is on its way over a slow link nothing is heard
NEWS_SECONDS = 0.5  # so often it is noted that something was heard
# So much of a lane is asked for ahead of what has come. What is on its way when something better is found is lost, and
# whatever comes over the same connection waits behind it.
AHEAD_SECONDS, LEAST_AHEAD = 1.0, 8


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before another source is asked, in seconds."""

    silence: float = 3.0  # a living peer says something every second
    strangeness: float = 6.0  # that a peer does not know the model or the token: its order may be on its way
    # Before a neighbour that was gone is tried again; the last repeats. An agent restarts within seconds, and what it
    # can send lies idle until its followers know.
    again: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 2.0, 4.0)


class Security:
    """What this node shows to others and whom it believes. A neighbour must prove to be the node that is meant."""

    def __init__(
        self, credentials: grpc.ChannelCredentials | None = None, names_are_node_ids: bool = False
    ) -> None:
        self._credentials, self._names_are_node_ids = credentials, names_are_node_ids

    def renew(self, credentials: grpc.ChannelCredentials) -> None:
        """For connections from now on."""
        self._credentials = credentials

    def channel(self, peer: Peer) -> grpc.aio.Channel:
        if self._credentials is None:
            # With names to be proven and nothing to prove them by, this fails at the other side's TLS.
            return grpc.aio.insecure_channel(peer.address, OPTIONS)
        options: tuple[tuple[str, str | int], ...] = OPTIONS
        if self._names_are_node_ids:
            options = (*OPTIONS, ("grpc.ssl_target_name_override", peer.node_id))
        return grpc.aio.secure_channel(peer.address, self._credentials, options)


async def ask_neighbour(security: Security, token: str, peer: Peer, manifest_id: str) -> bytes:
    """A manifest as JSON, as soon as the neighbour has it itself. Raises AioRpcError."""
    async with security.channel(peer) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/Manifest",
            manifest_pb2.ManifestRequest.SerializeToString,
            manifest_pb2.ManifestReply.FromString,
        )
        request = manifest_pb2.ManifestRequest(manifest_id=manifest_id)
        reply = await call(request, metadata=(("authorization", f"Bearer {token}"),))
        return bytes(reply.manifest_json)


class Neighbour:
    """`watch` runs as long as the neighbour matters and calls `changed` on news."""

    def __init__(
        self,
        peer: Peer,
        landing: Landing,
        lanes: int,
        token: str,
        patience: Patience,
        security: Security,
        changed: Callable[[], None],
        missed: Callable[[Neighbour, SourceFailed], None],
    ) -> None:
        self.peer, self.name = peer, peer.node_id
        self.holds: tuple[Runs, ...] = ((),) * lanes
        self.gone, self.has_reported = False, False
        self._landing, self._lanes, self._patience = landing, lanes, patience
        self._changed, self._missed = changed, missed
        self._misses = 0  # since the last piece
        self._away_until = 0.0
        self._met = asyncio.Event()
        # Of what is waited for, and for how long after any word.
        self._clocks: dict[asyncio.Timeout, float] = {}
        self._heard_at = 0.0
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._security = security
        self._channel = security.channel(peer)

    async def close(self) -> None:
        await self._channel.close(grace=None)

    # -- what it holds

    def meet(self) -> None:
        """There is a reason not to wait any longer: somebody else has failed, or our own link is back."""
        self._met.set()

    async def watch(self, after: float = 0.0, connect_after: float | None = None) -> None:
        """Its news after so many seconds. The connection may be made before: a handshake over a full link takes a
        second, which nobody has when somebody else fails."""
        met = False
        if connect_after is not None:
            met = await self._pause(connect_after)
            self._channel.get_state(try_to_connect=True)
        if not met:
            await self._pause(after)
        while True:
            try:
                await self._watch_once()
            except SourceFailed as trouble:
                self.miss(trouble)
            await self._pause(max(0.1, self._away_until - asyncio.get_running_loop().time()))
            self._away_until = 0.0
            # The old connection may hang on a network that is no more.
            await self._channel.close(grace=None)
            self._channel = self._security.channel(self.peer)

    async def _pause(self, seconds: float) -> bool:
        """Whether there is a reason not to wait any longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._met.wait()
        met = self._met.is_set()
        self._met.clear()
        return met

    def miss(self, trouble: SourceFailed) -> None:
        """It is gone, for a second at least."""
        pauses = self._patience.again
        now = asyncio.get_running_loop().time()
        if now >= self._away_until:
            self._away_until = now + pauses[min(self._misses, len(pauses) - 1)]
            self._misses += 1
        if not self.gone:
            self.gone = True
            self._missed(self, trouble)

    async def _watch_once(self) -> None:
        request = wire.WatchRequest(manifest_id=self._landing.manifest.id, lanes=self._lanes)
        call = self._channel.unary_stream(
            f"/{SERVICE}/Watch", wire.WatchRequest.SerializeToString, wire.Holds.FromString
        )(request, metadata=self._metadata)
        stranger = _Stranger(self.name, self._patience)
        try:
            while isinstance(message := await self._within(call.read()), wire.Holds):
                if message.given_up:
                    raise SourceFailed(f"{self.name} does not have it: its own delivery failed")
                if not message.known:
                    stranger.still_unknown()
                    continue
                stranger.known()
                if len(message.lanes) != self._lanes:
                    raise SourceFailed(f"{self.name} reports {len(message.lanes)} lanes, not {self._lanes}")
                self._learn(tuple(_runs(lane.runs) for lane in message.lanes))
            raise await self._why(call)
        except grpc.aio.AioRpcError as error:
            raise await self._why(call) from error
        finally:
            call.cancel()

    def _learn(self, holds: tuple[Runs, ...]) -> None:
        """News of progress can wait for the next look; that it has begun, has leapt or is back cannot."""
        leapt = any(len(now) > len(before) for now, before in zip(holds, self.holds, strict=True))
        self.holds, self.has_reported = holds, True
        if self.gone and asyncio.get_running_loop().time() < self._away_until:
            return
        if self.gone or leapt:
            self.gone = False
            self._changed()

    # -- its pieces

    async def pieces(self, landing: Landing, numbers: range) -> Pieces:
        stream: Any = self._channel.stream_stream(
            f"/{SERVICE}/StreamChunks", wire.PiecesWanted.SerializeToString, frames.decode
        )
        call = stream(metadata=self._metadata)
        asked = 0
        try:
            for at, number in enumerate(numbers):
                ahead = self._ahead(landing)
                if at + ahead // 2 >= asked < len(numbers):
                    batch = numbers[asked : at + ahead]
                    await self._within(call.write(_request(landing, batch)))
                    asked += len(batch)
                yield number, await self._piece(call, landing, number)
                self._misses = 0
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, EOFError) as error:
            # However the end shows (a failed read, a write too late, no more messages), the call knows why.
            raise await self._why(call) from error
        finally:
            call.cancel()

    def _ahead(self, landing: Landing) -> int:
        a_second = landing.received.rate() / landing.manifest.piece_size / self._lanes
        return max(LEAST_AHEAD, int(AHEAD_SECONDS * a_second))

    async def _piece(self, call: Any, landing: Landing, number: int) -> list[memoryview]:
        size = landing.piece_at(number).size
        parts: list[memoryview] = []
        done = 0
        stranger = _Stranger(self.name, self._patience)
        while done < size:
            message = await self._within(call.read(), min(size, frames.PART_BYTES) / SLOWEST)
            if isinstance(message, frames.Part):
                if (message.piece, message.offset) != (number, done) or not message.data:
                    raise SourceFailed(f"{self.name} sent a piece that was not asked for")
                parts.append(message.data)
                done += len(message.data)
            elif not isinstance(message, wire.FromPeer):
                raise EOFError
            elif message.HasField("not_here"):
                raise SourceFailed(f"{self.name} does not have it: {message.not_here.reason}")
            elif message.waiting.expected:
                stranger.known()
            else:
                stranger.still_unknown()
        return parts

    async def _why(self, call: Any) -> SourceFailed:
        code = None
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience.silence):
                code = await call.code()
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return SourceFailed(f"{self.name} does not accept our token")
        if code in (None, grpc.StatusCode.OK):
            return SourceFailed(f"{self.name} ended the stream")
        return SourceFailed(f"{self.name} cannot be reached ({code.name.lower()}: {await call.details()})")

    async def _within(self, call: Awaitable[_T], more: float = 0.0) -> _T:
        silence = self._patience.silence + more
        clock = asyncio.timeout(silence)
        try:
            async with clock:
                self._clocks[clock] = silence
                message = await call
                self._heard()
                return message
        except TimeoutError as error:
            raise SourceFailed(f"{self.name} was silent for {silence:.0f} s") from error
        finally:
            self._clocks.pop(clock, None)

    def _heard(self) -> None:
        """On a slow link a message may wait for long behind the bytes of others: whoever sends those is not silent."""
        now = asyncio.get_running_loop().time()
        if now - self._heard_at < NEWS_SECONDS:
            return
        self._heard_at = now
        for clock, silence in self._clocks.items():
            if not clock.expired():
                clock.reschedule(now + silence)


class _Stranger:
    """A peer that does not know the delivery is waited for a while."""

    def __init__(self, name: str, patience: Patience) -> None:
        self._name, self._patience = name, patience
        self._since: float | None = None

    def known(self) -> None:
        self._since = None

    def still_unknown(self) -> None:
        now = asyncio.get_running_loop().time()
        self._since = self._since or now
        if now - self._since > self._patience.strangeness:
            raise SourceFailed(f"{self._name} does not know this model or our token")


def _request(landing: Landing, batch: range) -> wire.PiecesWanted:
    return wire.PiecesWanted(
        manifest_id=landing.manifest.id, first=batch.start, until=batch.stop, stride=batch.step
    )


def _runs(edges: Iterable[int]) -> Runs:
    numbers = iter(edges)
    return tuple(zip(numbers, numbers, strict=True))
