"""Writes verified pieces to disk while the next ones arrive; the disk may be a few pieces behind."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing

from agent.transfer.disk.landing import WRITTEN_AT_ONCE, Landing
from agent.transfer.store.sources import Source
from platform_core.errors import TrainmasterError

# Of a lane, whichever is more. The pieces of small files are small: four of them would wait for each batch.
UNWRITTEN_PIECES, UNWRITTEN_BYTES = 4, 2 * WRITTEN_AT_ONCE


class WriteBehind:
    """Writes verified pieces while others come. At the end all of them are on disk, also where the source has failed:
    what is here whole need not be sent again.

    `failed` hears at once that the disk does not take them: perhaps no further piece comes with which to say it."""

    def __init__(
        self, landing: Landing, written: Callable[[int], None], failed: Callable[[TrainmasterError], None]
    ) -> None:
        self._landing, self._written, self._failed = landing, written, failed
        # Of each piece with its bytes; those that are written together have the same.
        self._writing: deque[tuple[asyncio.Task[None], int]] = deque()
        self._unwritten = 0

    async def __aenter__(self) -> WriteBehind:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._landing.flush()
        if self._writing:
            await asyncio.wait({task for task, _ in self._writing})
        if error is None:
            for task, _ in self._writing:
                task.result()

    async def write(self, number: int, parts: Sequence[memoryview]) -> None:
        size = sum(len(part) for part in parts)
        while len(self._writing) >= UNWRITTEN_PIECES and self._unwritten + size > UNWRITTEN_BYTES:
            oldest, its_size = self._writing.popleft()
            self._unwritten -= its_size
            await asyncio.wait((oldest,))
            oldest.result()
        task = self._landing.write(number, parts, self._written)
        if not self._writing or task is not self._writing[-1][0]:
            task.add_done_callback(self._ended)
        self._writing.append((task, size))
        self._unwritten += size

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), TrainmasterError):
            self._failed(error)


async def fill_from(source: Source, landing: Landing) -> None:
    """Copies the pieces that another model on this node holds already."""
    async with (
        WriteBehind(landing, lambda size: None, lambda error: None) as disk,
        aclosing(source.pieces(landing, range(landing.count))) as pieces,
    ):
        async for number, parts in pieces:
            if await landing.verify(number, parts):
                await disk.write(number, parts)
