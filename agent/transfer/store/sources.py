"""Sources of pieces, with one interface: the store, a neighbour, or another model on this node."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from agent.transfer.disk.holdings import Holdings
from agent.transfer.disk.landing import Landing
from agent.transfer.store.ranges import BLOCK, SILENCE_SECONDS, Came, Outstanding, Ranges, Silent
from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FileEntry, Piece
from platform_core.distribution.planning.forest import STORE
from platform_core.errors import TrainmasterError
from trainmaster.store import Store, open_store, shown
from trainmaster.store.port import since_when

Pieces: TypeAlias = AsyncGenerator[tuple[int, list[memoryview]], None]

RANGE_BYTES = 16 << 20
# The next range is asked for when no more than this is still to come. What is on its way together comes together, and
# late; too little, and the link waits for the next. Large ranges are for links that one connection cannot fill.
# Two at least, as soon as anything has come: beside one that is late another comes.
ENOUGH_BYTES, LEAST_RANGES = 512 << 10, 2
LARGE_RANGE, OF_LARGE_RANGES = 4 << 20, 3
AHEAD = 2  # times as much may be here or on its way while it waits for a range that is late


class SourceFailed(Exception):
    """This source cannot go on; another may. The message is a clause for a sentence."""


class SourceChanged(SourceFailed):
    """The store now holds another file than was registered, whoever reads it."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What the store called the files, by path, when they were registered under this name."""

    name: str = "it"
    etags: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """`pieces` yields these pieces in order, as one or several parts each, unverified.

    It raises SourceFailed when it cannot go on. It may be asked again later, and several times at once. Closing the
    iterator stops whatever is under way.
    """

    name: str

    def pieces(self, landing: Landing, numbers: range) -> Pieces: ...


class StoreSource:
    """Ranges from the store, each asked for a little before those on their way are here."""

    def __init__(
        self,
        url: str,
        executor: Executor,
        silence: float = SILENCE_SECONDS,
        registered: Registered = Registered(),
    ) -> None:
        """`silence`: after so many seconds without a byte a range is asked for anew, or the store is given up."""
        self.name = STORE
        self._url, self._executor = url, executor
        self._fetching = Ranges(executor, silence)
        self._store: Store | None = None
        self._registered = registered
        self._seen: dict[str, str] = {}  # etags before the first byte, of files of which none was registered

    async def pieces(self, landing: Landing, numbers: range) -> Pieces:
        loop = asyncio.get_running_loop()
        under_way: deque[tuple[range, int, asyncio.Task[bytes]]] = deque()
        # Two that begin together end together, and all who wait below this node wait longer for the first.
        at_least, stopped = 1, False
        try:
            if self._store is None:
                opened = partial(open_store, self._url, silence=self._fetching.silence, attempts=1)
                self._store = await loop.run_in_executor(self._executor, opened)
            store, ranges = self._store, _ranges(landing, numbers)

            def ask(_: object = None) -> None:
                """Requests more ranges, within the limit while one is late."""
                while not stopped:
                    running = sum(not call.done() for _, _, call in under_way)
                    if running >= at_least and not outstanding.is_low:
                        return
                    waiting = [size for _, size, _ in under_way]
                    if sum(waiting) > AHEAD * max(outstanding.enough, *waiting, 0):
                        return
                    if (run := next(ranges, None)) is None:
                        return
                    first, last = landing.piece_at(run[0]), landing.piece_at(run[-1])
                    size = last.offset + last.size - first.offset
                    outstanding.enough = OF_LARGE_RANGES * size if size >= LARGE_RANGE else ENOUGH_BYTES
                    outstanding.asked(size)
                    call = asyncio.create_task(self._read(store, landing, first, size, outstanding.came))
                    call.add_done_callback(ask)
                    under_way.append((run, size, call))

            outstanding = Outstanding(ask)
            ask()
            while under_way:
                run, _, call = under_way[0]
                data = memoryview(await call)
                under_way.popleft()
                at_least = LEAST_RANGES
                ask()
                start = 0
                for number in run:
                    size = landing.piece_at(number).size
                    yield number, [data[start : start + size]]
                    start += size
        except TrainmasterError as error:
            raise self._failed(error) from error
        except Silent as silent:
            raise SourceFailed(f"The store {shown(self._url)} does not answer: {silent}") from silent
        finally:
            stopped = True  # those that end now ask for no more
            calls = [call for _, _, call in under_way]
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def _read(self, store: Store, landing: Landing, first: Piece, size: int, came: Came) -> bytes:
        entry = landing.manifest.files[landing.manifest.chunks[first.chunk].file]
        return await self._fetching.fetch(partial(self._pinned, store, entry), first.offset, size, came)

    def _pinned(self, store: Store, entry: FileEntry, offset: int, size: int) -> Generator[bytes, None, None]:
        """All of a file from the same version of it: one that was replaced meanwhile is an error at once."""
        path, place = entry.path, stored_path(self._url, entry)
        etag = self._registered.etags.get(path) or self._seen.get(path)
        if etag is None:
            try:
                etag = store.etag(place)
            except TrainmasterError:  # a server that answers ranges only; the pieces' digests still decide
                etag = ""
            self._seen[path] = etag
        yield from store.stream_range(place, offset, size, etag, block=BLOCK)

    def other_bytes(self, landing: Landing, number: int) -> SourceChanged:
        """The error for a piece that was wrong twice."""
        piece = landing.piece_at(number)
        path = landing.manifest.files[landing.manifest.chunks[piece.chunk].file].path
        where = f"{shown(self._url)}/{path} (chunk {piece.chunk}, piece {piece.index})"
        return SourceChanged(
            f"{where} does not have the SHA-256 of {self._registered.name}, also when it is read again: "
            "it was changed or damaged there since it was registered; put the right file back, or register it anew"
        )

    def _failed(self, error: TrainmasterError) -> SourceFailed:
        if error.code != "source_changed":
            return SourceFailed(error.sentence)
        was_registered = error.numbers["then"] in self._registered.etags.values()
        since = f"since {self._registered.name} was registered" if was_registered else "while it was read"
        return SourceChanged(since_when(error, since).sentence)


def _ranges(landing: Landing, numbers: range) -> Iterator[range]:
    """Pieces that lie side by side in a file are read at once; those that are here already are left out."""
    longest = max(1, RANGE_BYTES // landing.manifest.piece_size)
    run = range(0)
    for number in numbers:
        if landing.has(number):
            continue
        joins = (
            bool(run) and number == run.stop and len(run) < longest
            and landing.piece_at(number).chunk == landing.piece_at(run[0]).chunk
        )  # fmt: skip
        if not joins and run:
            yield run
        run = range(run.start if joins else number, number + 1)
    if run:
        yield run


class LocalSource:
    """Chunks that another model on this node has already: an unchanged chunk of an earlier version is free."""

    def __init__(self, holdings: Holdings) -> None:
        self.name = holdings.node_id
        self._holdings = holdings

    async def pieces(self, landing: Landing, numbers: range) -> Pieces:
        """Yields the pieces that are on this node; the others are left out."""
        for chunk in landing.manifest.chunks:
            for other, same in self._holdings.elsewhere(chunk, landing):
                for index in range(len(chunk.pieces)):
                    number = landing.number(chunk.index, index)
                    if landing.has(number) or not other.has(other.number(same.index, index)):
                        continue
                    try:
                        data = await asyncio.to_thread(other.read, other.manifest.piece(same, index))
                    except OSError:
                        break  # removed meanwhile
                    yield number, [data]
