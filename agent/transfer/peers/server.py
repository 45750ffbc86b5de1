"""Sends pieces to other agents: each as soon as it is verified here, waiting for those still on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from agent.transfer.disk.holdings import Holdings
from agent.transfer.disk.landing import Landing
from agent.transfer.peers import frames
from agent.transfer.peers.link import Link
from agent.transfer.peers.neighbour import SERVICE, STREAMS
from platform_core.distribution.content.manifest import Piece
from trainmaster_wire.agent.v1 import chunk_transfer_pb2 as wire
from trainmaster_wire.agent.v1 import manifest_pb2

Authorise = Callable[[str], bool]
SIGN_OF_LIFE_SECONDS = 1.0
SHORTEST_BETWEEN_NEWS_SECONDS = 1.0
STRANGER_SIGNS = 10
STRANGER_SECONDS = 2.0  # who wants a manifest can ask the platform


class ChunkServer:
    """`authorise` checks the token of each stream before anything is sent."""

    def __init__(self, holdings: Holdings, authorise: Authorise, link: Link) -> None:
        self._holdings, self._authorise, self._link = holdings, authorise, link

    async def stream_chunks(self, requests: AsyncIterator[wire.PiecesWanted], context: Any) -> None:
        if not await self._is_known(context, _WAITING_FOR_ORDER):
            return
        async for wanted in requests:
            number = wanted.first
            while number < wanted.until:
                if (landing := await self._landing_with(wanted.manifest_id, number, context)) is None:
                    return
                await self._send(landing, number, context)
                number += max(1, wanted.stride)

    async def watch(self, request: wire.WatchRequest, context: Any) -> None:
        lanes = min(max(1, request.lanes), 64)
        if not await self._is_known(context, wire.Holds(known=False)):
            return
        sent = None
        while True:
            landing = self._holdings.landing(request.manifest_id)
            state = None if landing is None else (id(landing), landing.book(lanes).version)
            if state is not None and state == sent:
                assert landing is not None
                await landing.change(SIGN_OF_LIFE_SECONDS)
            if self._holdings.landing(request.manifest_id) is landing:
                sent = state
                await context.write(self._holds(request.manifest_id, lanes))
            if landing is None:
                await self._holdings.news(SIGN_OF_LIFE_SECONDS)
            else:
                await asyncio.sleep(SHORTEST_BETWEEN_NEWS_SECONDS)

    async def manifest(
        self, request: manifest_pb2.ManifestRequest, context: Any
    ) -> manifest_pb2.ManifestReply:
        """Its order may be on its way here, for a moment; then the manifest itself, for as long as the asker waits."""
        clock = asyncio.get_running_loop().time
        until = clock() + STRANGER_SECONDS
        while (known := self._authorise(_token(context))) or clock() < until:
            if known and (landing := self._holdings.landing(request.manifest_id)) is not None:
                text = await asyncio.to_thread((landing.folder / "manifest.json").read_bytes)
                return manifest_pb2.ManifestReply(manifest_json=text)
            if known and request.manifest_id in self._holdings.given_up:
                break
            await self._holdings.news(SIGN_OF_LIFE_SECONDS)
        await context.abort(
            grpc.StatusCode.NOT_FOUND, "It is not here, or this token belongs to no delivery here."
        )
        raise AssertionError("unreachable: the call has ended")

    # -- inside

    async def _is_known(self, context: Any, sign: object) -> bool:
        for _ in range(STRANGER_SIGNS):
            if self._authorise(_token(context)):
                return True
            # We learn tokens with our own orders, and this one may be on its way.
            await context.write(sign)
            await self._holdings.news(SIGN_OF_LIFE_SECONDS)
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "This token belongs to no delivery here.")
        return False

    async def _landing_with(self, manifest_id: str, number: int, context: Any) -> Landing | None:
        """The landing once it has this piece; None when it never will."""
        while True:
            landing = self._holdings.landing(manifest_id)
            if landing is None:
                if manifest_id in self._holdings.given_up:
                    await _not_here(context, "its own delivery failed or was cancelled")
                    return None
                await self._holdings.news(SIGN_OF_LIFE_SECONDS)
                if self._holdings.landing(manifest_id) is None:
                    await context.write(_WAITING_FOR_ORDER)
            elif number >= landing.count:
                await _not_here(context, f"the model has {landing.count} pieces")
                return None
            elif await landing.verified(number, SIGN_OF_LIFE_SECONDS):
                return landing
            elif not landing.closed:
                await context.write(_WAITING)

    async def _send(self, landing: Landing, number: int, context: Any) -> None:
        piece = landing.piece_at(number)
        for start in range(0, piece.size, frames.PART_BYTES):
            size = min(frames.PART_BYTES, piece.size - start)
            await self._link.take(landing.manifest.id, size)
            try:
                message = await _read(landing, number, piece, start, size)
            except OSError as error:
                await _not_here(context, f"its disk failed: {error.strerror}")
                return
            await context.write(message)
        landing.sent.count(piece.size)

    def _holds(self, manifest_id: str, lanes: int) -> wire.Holds:
        landing = self._holdings.landing(manifest_id)
        if landing is None:
            return wire.Holds(known=False, given_up=manifest_id in self._holdings.given_up)
        runs = landing.book(lanes).runs()
        held = [wire.LaneHeld(runs=[edge for run in lane for edge in run]) for lane in runs]
        return wire.Holds(known=True, lanes=held)


_WAITING = wire.FromPeer(waiting=wire.Waiting(expected=True))
_WAITING_FOR_ORDER = wire.FromPeer(waiting=wire.Waiting(expected=False))


async def _read(landing: Landing, number: int, piece: Piece, start: int, size: int) -> bytes:
    """What just came is passed on as it came. What the kernel has in memory is taken at once: a thread would cost
    more than the copy."""
    if (data := landing.just_came(number, start, size)) is not None:
        return frames.passed_on(number, start, data)

    def fill(view: memoryview) -> None:
        landing.read_into(piece, start, view, cached_only=True)

    def fill_from_disk(view: memoryview) -> None:
        landing.read_into(piece, start, view)

    try:
        return frames.part_message(number, start, size, fill)
    except BlockingIOError:
        return await asyncio.to_thread(frames.part_message, number, start, size, fill_from_disk)


async def serve(
    holdings: Holdings,
    authorise: Authorise,
    address: str,
    credentials: grpc.ServerCredentials | None = None,
    link: Link | None = None,
) -> tuple[grpc.aio.Server, int]:
    """A started server on this host:port (port 0 takes a free one), and its port."""
    # Two agents must not share a port by accident: the kernel would deal their callers out between them.
    server = grpc.aio.server(options=(*STREAMS, ("grpc.so_reuseport", 0)))
    server.add_generic_rpc_handlers((_handlers(ChunkServer(holdings, authorise, link or Link())),))
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    await server.start()
    return server, port


def _handlers(servicer: ChunkServer) -> Any:
    """As the generated code makes them, but for the messages that carry pieces."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "StreamChunks": grpc.stream_stream_rpc_method_handler(
                servicer.stream_chunks, wire.PiecesWanted.FromString, frames.encode
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                servicer.watch, wire.WatchRequest.FromString, wire.Holds.SerializeToString
            ),
            "Manifest": grpc.unary_unary_rpc_method_handler(
                servicer.manifest,
                manifest_pb2.ManifestRequest.FromString,
                manifest_pb2.ManifestReply.SerializeToString,
            ),
        },
    )


def _token(context: Any) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return ""


async def _not_here(context: Any, reason: str) -> None:
    await context.write(wire.FromPeer(not_here=wire.NotHere(reason=reason)))
