"""Sends pieces to other agents: each as soon as it is verified here, waiting for those still on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import grpc.aio

from agent.transfer.holdings import Holdings
from agent.transfer.peer import OPTIONS
from trainmaster_wire.agent.v1 import chunk_transfer_pb2 as wire
from trainmaster_wire.agent.v1.chunk_transfer_pb2_grpc import (
    ChunkTransferServicer,
    add_ChunkTransferServicer_to_server,
)

Authorise = Callable[[str], bool]
SIGN_OF_LIFE_SECONDS = 1.0
STRANGER_SIGNS = 10


class ChunkServer(ChunkTransferServicer):
    """`authorise` is shown the token of each stream before any piece is sent."""

    def __init__(self, holdings: Holdings, authorise: Authorise) -> None:
        self._holdings, self._authorise = holdings, authorise

    async def StreamChunks(
        self,
        request_iterator: AsyncIterator[wire.PiecesWanted],
        context: grpc.aio.ServicerContext[wire.PiecesWanted, wire.FromPeer],
    ) -> AsyncIterator[wire.FromPeer]:
        token = _token(context)
        for _ in range(STRANGER_SIGNS):
            if self._authorise(token):
                break
            # We learn tokens with our own orders, and this one may be on its way.
            yield wire.FromPeer(waiting=wire.Waiting(expected=False))
            await self._holdings.news(SIGN_OF_LIFE_SECONDS)
        else:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "This token belongs to no delivery here.")
        async for wanted in request_iterator:
            for index in range(wanted.first_piece, wanted.first_piece + wanted.pieces):
                async for reply in self._piece(wanted, index):
                    yield reply

    async def _piece(self, wanted: wire.PiecesWanted, index: int) -> AsyncIterator[wire.FromPeer]:
        while True:
            found = self._holdings.find(wanted.chunk_sha256, wanted.piece_size, index)
            if found is None:
                if wanted.manifest_id in self._holdings.given_up:
                    yield _not_here(wanted, "its own delivery failed or was cancelled")
                    return
                await self._holdings.news(SIGN_OF_LIFE_SECONDS)
                if self._holdings.find(wanted.chunk_sha256, wanted.piece_size, index) is None:
                    yield wire.FromPeer(waiting=wire.Waiting(expected=False))
                continue
            landing, chunk = found
            if index >= len(chunk.pieces):
                yield _not_here(wanted, f"the chunk has {len(chunk.pieces)} pieces")
                return
            if not await landing.arrived(chunk.index, index, SIGN_OF_LIFE_SECONDS):
                if not landing.closed:
                    yield wire.FromPeer(waiting=wire.Waiting(expected=True))
                continue
            piece = landing.manifest.piece(chunk, index)
            try:
                data = await asyncio.to_thread(landing.read, piece)
            except OSError as error:
                yield _not_here(wanted, f"its disk failed: {error.strerror}")
                return
            yield wire.FromPeer(piece=wire.Piece(chunk_sha256=chunk.sha256, index=index, data=data))
            landing.sent.count(piece.size)
            return


async def serve(
    holdings: Holdings,
    authorise: Authorise,
    address: str,
    credentials: grpc.ServerCredentials | None = None,
) -> tuple[grpc.aio.Server, int]:
    """A started server on this host:port (port 0 takes a free one), and its port."""
    # Two agents must not share a port by accident: the kernel would deal their callers out between them.
    server = grpc.aio.server(options=(*OPTIONS[:2], ("grpc.so_reuseport", 0)))
    add_ChunkTransferServicer_to_server(ChunkServer(holdings, authorise), server)
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    await server.start()
    return server, port


def _token(context: grpc.aio.ServicerContext[wire.PiecesWanted, wire.FromPeer]) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return ""


def _not_here(wanted: wire.PiecesWanted, reason: str) -> wire.FromPeer:
    return wire.FromPeer(not_here=wire.NotHere(chunk_sha256=wanted.chunk_sha256, reason=reason))
