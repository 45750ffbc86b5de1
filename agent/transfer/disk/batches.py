"""Batches small work items into one call of a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Batch(Generic[T]):
    items: list[T] = field(default_factory=list)
    size: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)


class Batches(Generic[T]):
    """Items that arrive within `seconds` go to `work` together, in a thread, and then one by one to `done`, in order;
    sooner if they weigh `enough`, or after `flush`. A thread and a wake-up for each small piece would
    cost more than hashing it."""

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        done: Callable[[T], None],
        enough: int,
        seconds: float,
    ) -> None:
        self._work, self._done, self._enough, self._seconds = work, done, enough, seconds
        self._batch: _Batch[T] | None = None
        self._last: asyncio.Task[None] | None = None

    def put(self, item: T, size: int) -> asyncio.Task[None]:
        """The task of all that go together: it ends after `done`, or with what `work` raised. Not to be cancelled."""
        batch = self._batch
        if batch is None or self._last is None:
            batch = self._batch = _Batch()
            self._last = asyncio.create_task(self._run(batch, self._last))
        task = self._last
        batch.items.append(item)
        batch.size += size
        if batch.size >= self._enough:
            self.flush()
        return task

    def flush(self) -> None:
        """Starts the batch now: no more items will come."""
        if self._batch is not None:
            self._batch.closed.set()
            self._batch = None

    async def _run(self, batch: _Batch[T], before: asyncio.Task[None] | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await batch.closed.wait()
        if self._batch is batch:
            self._batch = None
        try:
            await asyncio.to_thread(self._work, batch.items)
        finally:
            if before is not None:
                await asyncio.wait((before,))
        for item in batch.items:
            self._done(item)
