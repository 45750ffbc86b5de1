"""Pieces from another agent, as it verifies them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import grpc
import grpc.aio

from agent.transfer.landing import Landing, Run
from agent.transfer.sources import Pieces, SourceFailed
from trainmaster_wire.agent.v1 import chunk_transfer_pb2 as wire
from trainmaster_wire.agent.v1.chunk_transfer_pb2_grpc import ChunkTransferStub

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a new connection for each stream: the old one may be dead
)
_Call: TypeAlias = "grpc.aio.StreamStreamCall[wire.PiecesWanted, wire.FromPeer]"
_T = TypeVar("_T")

REQUESTS_IN_FLIGHT = 32
MIN_RATE = 1 << 20  # bytes per second: a piece may take this long before silence means death


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before another source is asked, in seconds."""

    silence: float = 3.0  # a living peer says something every second
    strangeness: float = 6.0  # that a peer does not know the model or the token: its order may be on its way


class PeerSource:
    """One neighbour in the chain."""

    def __init__(
        self,
        node_id: str,
        address: str,
        token: str,
        patience: Patience,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.name = node_id
        self._address, self._token, self._patience = address, token, patience
        self._credentials = credentials

    async def pieces(self, landing: Landing) -> Pieces:
        async with self._channel() as channel:
            metadata = (("authorization", f"Bearer {self._token}"),)
            call = ChunkTransferStub(channel).StreamChunks(metadata=metadata)  # type: ignore[call-arg]
            conversation = _Conversation(self.name, call, landing, self._patience)
            try:
                async for run, index in conversation.requests():
                    yield landing.manifest.piece(run.chunk, index), await conversation.answer(run, index)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, EOFError) as error:
                # However the end shows (a failed read, a write too late, no more messages), the call knows why.
                raise await self._why(call) from error
            finally:
                call.cancel()

    async def _why(self, call: _Call) -> SourceFailed:
        code = await call.code()
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return SourceFailed(f"{self.name} does not accept our token")
        if code is grpc.StatusCode.OK:
            return SourceFailed(f"{self.name} ended the stream")
        return SourceFailed(f"{self.name} cannot be reached ({code.name.lower()}: {await call.details()})")

    def _channel(self) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._address, OPTIONS)
        return grpc.aio.secure_channel(self._address, self._credentials, OPTIONS)


class _Conversation:
    """Requests ahead of answers on one stream. The peer answers in the order in which it was asked."""

    def __init__(self, name: str, call: _Call, landing: Landing, patience: Patience) -> None:
        self._name, self._call, self._landing, self._patience = name, call, landing, patience
        # A piece is one message: nothing is heard while it is on its way over a slow link.
        self._silence = patience.silence + landing.manifest.piece_size / MIN_RATE

    async def requests(self) -> AsyncIterator[tuple[Run, int]]:
        """Each piece whose answer comes next."""
        runs = self._landing.missing(longest=1 << 20)
        asked: deque[Run] = deque()
        while True:
            while len(asked) < REQUESTS_IN_FLIGHT and (run := next(runs, None)) is not None:
                await self._within(self._call.write(self._request(run)))
                asked.append(run)
            if not asked:
                return
            run = asked.popleft()
            for index in range(run.first, run.first + run.pieces):
                yield run, index

    async def answer(self, run: Run, index: int) -> bytes:
        stranger_since: float | None = None
        clock = asyncio.get_running_loop().time
        while True:
            reply = await self._within(self._call.read())
            if not isinstance(reply, wire.FromPeer):
                raise EOFError
            match reply.WhichOneof("message"):
                case "piece":
                    piece = reply.piece
                    if (piece.chunk_sha256, piece.index) != (run.chunk.sha256, index):
                        raise SourceFailed(f"{self._name} sent a piece that was not asked for")
                    return piece.data
                case "not_here":
                    raise SourceFailed(f"{self._name} does not have it: {reply.not_here.reason}")
                case "waiting" if reply.waiting.expected:
                    stranger_since = None
                case _:
                    stranger_since = stranger_since or clock()
                    if clock() - stranger_since > self._patience.strangeness:
                        raise SourceFailed(f"{self._name} does not know this model or our token")

    def _request(self, run: Run) -> wire.PiecesWanted:
        return wire.PiecesWanted(
            chunk_sha256=run.chunk.sha256,
            piece_size=self._landing.manifest.piece_size,
            first_piece=run.first,
            pieces=run.pieces,
            manifest_id=self._landing.manifest.id,
        )

    async def _within(self, call: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(self._silence):
                return await call
        except TimeoutError as error:
            raise SourceFailed(f"{self._name} was silent for {self._silence:.0f} s") from error
