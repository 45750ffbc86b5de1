"""Hashes files of datasets that are registered, while this node has nothing to train: taken by order, a few at a time.

Each is read once by an address that the platform has signed for it. What is not handed in when the agent dies, or
begins to train, is somebody else's when its lease is over.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import grpc.aio

from agent.channel import authorisation, is_passing, sentence_of
from agent.identity import Identity
from agent.session import Backoff
from platform_core.distribution.content.manifest import FileDigester
from platform_core.errors import TrainmasterError
from trainmaster import gate
from trainmaster.store.http import HttpStore
from trainmaster_wire.agent.v1 import hashing_pb2, session_pb2_grpc

log = logging.getLogger(__name__)

THREADS = 2
NICENESS = 10  # of these threads, behind all that people wait for
ANSWER_SECONDS = 60.0
NOTHING_SECONDS = 3.0  # until it asks again, where others hold all that is left


class Hasher:
    """Called on the event loop."""

    def __init__(self, channel: grpc.aio.Channel, identity: Callable[[], Awaitable[Identity]]) -> None:
        self._stub: Any = cast(Any, session_pb2_grpc.AgentSessionStub(channel))
        self._identity = identity
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._turn = asyncio.Lock()  # one batch at a time, whatever the number of registrations

    def want(self, snapshot_ids: Collection[str]) -> None:
        for gone in self._tasks.keys() - set(snapshot_ids):
            self._tasks.pop(gone).cancel()
        for snapshot_id in snapshot_ids:
            if snapshot_id not in self._tasks:
                self._tasks[snapshot_id] = asyncio.create_task(self._help(snapshot_id))

    async def _help(self, snapshot_id: str) -> None:
        done: list[hashing_pb2.HashedFile] = []
        backoff = Backoff()
        while True:
            try:
                reply = await self._ask(hashing_pb2.HashRequest(snapshot_id=snapshot_id, done=done))
            except grpc.aio.AioRpcError as error:
                if not is_passing(error):
                    log.info("hashes no more for %s: %s", snapshot_id, sentence_of(error))
                    return
                await asyncio.sleep(backoff.draw())
                continue
            backoff, done = Backoff(), []
            if not reply.files:
                await asyncio.sleep(NOTHING_SECONDS)
                continue
            async with self._turn:
                done = await self._hash_all(snapshot_id, reply)

    async def _ask(self, request: hashing_pb2.HashRequest) -> hashing_pb2.HashReply:
        metadata = authorisation(await self._identity())
        answer = await self._stub.HashFiles(request, metadata=metadata, timeout=ANSWER_SECONDS)
        return cast(hashing_pb2.HashReply, answer)

    async def _hash_all(self, snapshot_id: str, reply: hashing_pb2.HashReply) -> list[hashing_pb2.HashedFile]:
        """The digests of all of them. Meanwhile their lease is renewed."""
        stop, loop = Event(), asyncio.get_running_loop()
        self._threads = self._threads or ThreadPoolExecutor(THREADS, "hash", initializer=_stand_back)
        work = [loop.run_in_executor(self._threads, hash_file, file, reply, stop) for file in reply.files]
        held = hashing_pb2.HashRequest(snapshot_id=snapshot_id, held=[file.id for file in reply.files])
        try:
            while (await asyncio.wait(work, timeout=max(1, reply.lease_seconds / 3)))[1]:
                try:
                    await self._ask(held)
                except grpc.aio.AioRpcError as error:
                    log.debug("a lease of %s is not renewed: %s", snapshot_id, sentence_of(error))
            return [each.result() for each in work]
        finally:
            stop.set()
            for each in work:
                each.cancel()


def hash_file(
    file: hashing_pb2.FileToHash, sizes: hashing_pb2.HashReply, stop: Event
) -> hashing_pb2.HashedFile:
    """Its part of the manifest, or a sentence that says why there is none. Reads nothing but bytes of this etag."""
    etag = file.etag.partition("?")[0]  # behind which the id of a version may stand
    try:
        digester = FileDigester(file.path, sizes.chunk_size, sizes.piece_size)
        folder, name = _split(file.url)
        for block in HttpStore(folder, resolve=gate.anywhere).stream_range(name, 0, file.size, f'"{etag}"'):
            if stop.is_set():
                return hashing_pb2.HashedFile(id=file.id, error="the node has other work")
            digester.feed(block)
        part = json.dumps(digester.finish().as_document()).encode()
    except (TrainmasterError, OSError, ValueError) as error:
        why = f"{file.path} could not be read by its signed address: {error}"
        return hashing_pb2.HashedFile(id=file.id, error=why[:500])
    return hashing_pb2.HashedFile(id=file.id, etag=file.etag, part_json=part)


def _split(url: str) -> tuple[str, str]:
    """The address of the folder, with the signature, and the name of the file in it."""
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    return urlunsplit((parts.scheme, parts.netloc, folder, parts.query, "")), unquote(name)


def _stand_back() -> None:
    os.nice(NICENESS)  # of this thread alone, on Linux
