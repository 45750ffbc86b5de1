"""Manifests by id: from this node's disk, else from neighbours, else from the platform."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc.aio

from agent.channel import authorisation, is_passing, sentence_of, trouble_of
from agent.identity import Identity
from agent.session import Backoff
from platform_core.distribution.content.manifest import Manifest, from_json
from platform_core.errors import TrainmasterError
from trainmaster_wire.agent.v1 import manifest_pb2, session_pb2_grpc

log = logging.getLogger(__name__)

PLATFORM_SECONDS = 120.0  # a thousand nodes may ask at once
# For all neighbours together: they may be waiting for it themselves, and one of megabytes takes most of a second a hop.
NEIGHBOURS_SECONDS = 15.0
NEXT_NEIGHBOUR_SECONDS = 0.5  # until the next is asked as well
LOOK_EVERY_SECONDS = 0.2  # while a thread waits

Ask = Callable[[str], Awaitable[bytes]]  # somebody for the JSON of the manifest with this id


@dataclass(slots=True)
class _Request:
    task: asyncio.Task[Manifest]
    askers: int = 0


class Manifests:
    """Belongs to the event loop. All who ask for one manifest share a request, which ends with the last of them."""

    def __init__(self, data: Path, platform: Ask, patience: float = NEIGHBOURS_SECONDS) -> None:
        """`platform` raises TrainmasterError when it refuses; `patience` is for the neighbours."""
        self._folder, self._platform, self._patience = data / "transfer", platform, patience
        self._loop = asyncio.get_running_loop()
        self._requests: dict[str, _Request] = {}

    async def get(self, manifest_id: str, neighbours: Sequence[Ask] = ()) -> Manifest:
        """Waits for as long as the platform is away. Raises TrainmasterError when it refuses."""
        request = self._requests.get(manifest_id)
        if request is None:
            request = _Request(asyncio.create_task(self._find(manifest_id, neighbours)))
            self._requests[manifest_id] = request
        request.askers += 1
        try:
            return await asyncio.shield(request.task)
        finally:
            request.askers -= 1
            if not request.askers:
                request.task.cancel()
                del self._requests[manifest_id]

    def wait_for(self, manifest_id: str, look: Callable[[], None]) -> Manifest:
        """The same for a thread. `look` is called now and then meanwhile, and may raise to stop."""
        asked = asyncio.run_coroutine_threadsafe(self.get(manifest_id), self._loop)
        try:
            while not wait([asked], LOOK_EVERY_SECONDS).done:
                look()
            return asked.result()
        finally:
            asked.cancel()

    async def _find(self, manifest_id: str, neighbours: Sequence[Ask]) -> Manifest:
        with suppress(OSError, TrainmasterError):
            return await asyncio.to_thread(self._on_disk, manifest_id)
        if (manifest := await self._from_neighbours(manifest_id, neighbours)) is not None:
            return manifest
        return await asyncio.to_thread(_read, manifest_id, await self._platform(manifest_id))

    async def _from_neighbours(self, manifest_id: str, neighbours: Sequence[Ask]) -> Manifest | None:
        """One is asked after the other: the next as soon as one fails, and beside one that has been silent for long."""
        turns = iter(neighbours)
        asked: set[asyncio.Task[Manifest | None]] = set()
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    if neighbour := next(turns, None):
                        asked.add(asyncio.create_task(_from_neighbour(neighbour, manifest_id)))
                    if not asked:
                        return None
                    done, asked = await asyncio.wait(
                        asked, timeout=NEXT_NEIGHBOUR_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                    for answer in done:
                        if (manifest := answer.result()) is not None:
                            return manifest
        except TimeoutError:
            return None
        finally:
            for task in asked:
                task.cancel()

    def _on_disk(self, manifest_id: str) -> Manifest:
        return _read(manifest_id, (self._folder / manifest_id / "manifest.json").read_bytes())


async def ask_platform(
    server: str, channel: grpc.aio.Channel, identity: Callable[[], Awaitable[Identity]], manifest_id: str
) -> bytes:
    """Again and again while it is away."""
    metadata = authorisation(await identity())
    stub: Any = cast(Any, session_pb2_grpc.AgentSessionStub(channel))
    request = manifest_pb2.ManifestRequest(manifest_id=manifest_id)
    backoff, known = Backoff(), ""
    while True:
        try:
            reply = await stub.Manifest(request, metadata=metadata, timeout=PLATFORM_SECONDS)
            return bytes(reply.manifest_json)
        except grpc.aio.AioRpcError as error:
            if not is_passing(error):
                sentence = f"The platform does not give manifest {manifest_id}: {sentence_of(error)}"
                raise TrainmasterError("source_unavailable", sentence) from error
            trouble = trouble_of(server, error)
            level, known = logging.DEBUG if trouble == known else logging.WARNING, trouble
            log.log(level, "%s is waited for: %s", manifest_id, trouble)
        await asyncio.sleep(backoff.draw())


async def _from_neighbour(neighbour: Ask, manifest_id: str) -> Manifest | None:
    try:
        return await asyncio.to_thread(_read, manifest_id, await neighbour(manifest_id))
    except (grpc.aio.AioRpcError, TrainmasterError) as trouble:
        log.info("%s does not come from a neighbour: %r", manifest_id, trouble)
        return None


def _read(manifest_id: str, text: bytes) -> Manifest:
    """Blocking: a manifest of a very large model takes a while to check."""
    manifest = from_json(text)
    if manifest.id != manifest_id:
        raise TrainmasterError("manifest_invalid", why=f"it is {manifest.id}, {manifest_id} was asked for")
    return manifest
