"""Where pieces come from: the store, a peer, or another model on this node. All speak alike."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from typing import Protocol, TypeAlias

from agent.transfer.holdings import Holdings
from agent.transfer.landing import Landing, Run
from agent.transfer.progress import STORE
from platform_core.distribution.manifest import Piece
from platform_core.errors import TrainmasterError
from trainmaster.store import open_store

Pieces: TypeAlias = AsyncGenerator[tuple[Piece, bytes], None]

RANGE_BYTES = 16 << 20
RANGES_IN_FLIGHT = 4


class SourceFailed(Exception):
    """This source cannot go on; another may. The message is a clause for a sentence."""


class Source(Protocol):
    """`pieces` yields what the landing lacks, in order, unverified, until nothing is missing.

    It raises SourceFailed when it cannot go on. It may be asked again later; each call looks at what is missing
    then. Closing the iterator stops whatever is under way.
    """

    name: str

    def pieces(self, landing: Landing) -> Pieces: ...


class StoreSource:
    """Ranges from the store, several in flight."""

    def __init__(self, url: str, executor: Executor) -> None:
        self.name = STORE
        self._url, self._executor = url, executor

    async def pieces(self, landing: Landing) -> Pieces:
        manifest = landing.manifest
        loop = asyncio.get_running_loop()
        try:
            store = await loop.run_in_executor(self._executor, open_store, self._url)
        except TrainmasterError as error:
            raise SourceFailed(error.sentence) from error
        runs = landing.missing(max(1, RANGE_BYTES // manifest.piece_size))
        under_way: deque[tuple[Run, asyncio.Future[bytes]]] = deque()

        def begin() -> None:
            if (run := next(runs, None)) is None:
                return
            path = manifest.files[run.chunk.file].path
            first, last = (manifest.piece(run.chunk, run.first + n) for n in (0, run.pieces - 1))
            size = last.offset + last.size - first.offset
            call = loop.run_in_executor(self._executor, store.read_range, path, first.offset, size)
            under_way.append((run, call))

        try:
            for _ in range(RANGES_IN_FLIGHT):
                begin()
            while under_way:
                run, call = under_way[0]
                data = memoryview(await call)
                under_way.popleft()
                begin()
                for number in range(run.pieces):
                    piece = manifest.piece(run.chunk, run.first + number)
                    start = number * manifest.piece_size
                    yield piece, bytes(data[start : start + piece.size])
        except TrainmasterError as error:
            raise SourceFailed(error.sentence) from error
        finally:
            for _, call in under_way:
                call.cancel()
                # Its outcome is of no interest any more, and must not be reported as never retrieved.
                call.add_done_callback(lambda done: done.cancelled() or done.exception())


class LocalSource:
    """Chunks that another model on this node has already: an unchanged chunk of an earlier version is free."""

    def __init__(self, holdings: Holdings) -> None:
        self.name = holdings.node_id
        self._holdings = holdings

    async def pieces(self, landing: Landing) -> Pieces:
        for run in landing.missing(longest=1 << 20):
            for other, same in self._holdings.elsewhere(run.chunk, landing):
                for index in range(run.first, run.first + run.pieces):
                    if not other.has(same.index, index) or landing.has(run.chunk.index, index):
                        continue
                    try:
                        data = await asyncio.to_thread(other.read, other.manifest.piece(same, index))
                    except OSError:
                        break  # removed meanwhile
                    yield landing.manifest.piece(run.chunk, index), data
