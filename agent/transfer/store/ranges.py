"""One range of the store: read in a thread, watched from the loop, cancelled and resumed when it is silent or slow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import closing
from statistics import median
from threading import Lock
from time import monotonic
from typing import TypeAlias

from platform_core.errors import TrainmasterError

# What lies from there on, so many bytes; blocking.
Stream: TypeAlias = Callable[[int, int], Generator[bytes, None, None]]
# Told in a thread of each block how long it is.
Came: TypeAlias = Callable[[int], None]

SILENCE_SECONDS = 5.0
BLOCK = 64 << 10  # less than this in the seconds of silence is as good as nothing
SLOW = 8  # times slower than the others
OTHERS = 3  # fewer say nothing about what is usual
LOOKS = 4  # in the seconds of silence


class Silent(Exception):
    """The store sent nothing within its time limit."""


class Outstanding:
    """The bytes that were asked for and have not come. When they fall to `enough`, `low` is called, on the loop: each
    range is asked for while the one before it comes, so they end one after the other and not several at once."""

    def __init__(self, low: Callable[[], None]) -> None:
        self.bytes, self.enough = 0, 0
        self._low, self._loop = low, asyncio.get_running_loop()
        self._lock = Lock()

    @property
    def is_low(self) -> bool:
        return self.bytes <= self.enough

    def asked(self, size: int) -> None:
        with self._lock:
            self.bytes += size

    def came(self, size: int) -> None:
        """In any thread."""
        with self._lock:
            was_low = self.is_low
            self.bytes -= size
            falls = self.is_low and not was_low
        if falls:
            self._loop.call_soon_threadsafe(self._low)


class _Reading:
    """One request: appended to by a thread, until it is stopped."""

    def __init__(self, came: Came) -> None:
        self.got = 0
        self._came = came
        self.began = self.heard = 0.0  # none before a thread has taken it up
        self._parts: list[bytes] = []
        self._stopped = False
        self._lock = Lock()

    def run(self, stream: Stream, start: int, size: int) -> None:
        self.began = self.heard = monotonic()
        with closing(stream(start, size)) as blocks:
            for block in blocks:
                if not self._keep(block):
                    return

    def _keep(self, block: bytes) -> bool:
        with self._lock:
            if not self._stopped:
                self._parts.append(block)
                self.got += len(block)
                self.heard = monotonic()
                self._came(len(block))
            return not self._stopped

    def stop(self) -> list[bytes]:
        """Returns the bytes so far; no more are added, though the thread may take a while to end."""
        with self._lock:
            self._stopped = True
            return self._parts

    def rate(self, now: float) -> float:
        return self.got / max(1e-3, now - self.began)


class Ranges:
    """The ranges of one source, which are measured by each other."""

    def __init__(self, executor: Executor, silence: float = SILENCE_SECONDS) -> None:
        self._executor, self.silence = executor, silence
        self._running: set[_Reading] = set()
        self._ended: deque[tuple[float, float]] = deque(maxlen=16)  # when, and at how many bytes a second

    async def fetch(self, stream: Stream, offset: int, size: int, came: Came = lambda size: None) -> bytes:
        """Reads the whole range, resuming as long as bytes arrive; otherwise raises the store's error, or Silent."""
        parts: list[bytes] = []
        left = size
        while left:
            reading = _Reading(came)
            try:
                await self._read(reading, stream, offset + size - left, left)
            except (TrainmasterError, Silent):
                if not reading.got:
                    raise
            finally:
                parts += reading.stop()
            left -= reading.got
        return b"".join(parts)

    async def _read(self, reading: _Reading, stream: Stream, start: int, size: int) -> None:
        """Returns when the range is complete, or when reading it again is better."""
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._executor, reading.run, stream, start, size)
        self._running.add(reading)
        try:
            while not (await asyncio.wait({call}, timeout=self.silence / LOOKS))[0]:
                now = monotonic()
                if reading.heard and now - reading.heard >= self.silence:
                    raise Silent(f"nothing came for {self.silence:g} s")
                if self._slow(reading, now):
                    return
            call.result()
            now = monotonic()
            self._ended.append((now, reading.rate(now)))
        finally:
            self._running.discard(reading)
            call.cancel()
            # Its outcome is of no interest any more, and must not be reported as never retrieved.
            call.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _slow(self, reading: _Reading, now: float) -> bool:
        """Whether concurrent ranges are many times faster, so that another connection is likely to be as well."""
        if not reading.began or now - reading.began < self.silence:
            return False
        others = [other.rate(now) for other in self._running if other is not reading and other.got]
        others += [rate for ended, rate in self._ended if now - ended < self.silence]
        return len(others) >= OTHERS and SLOW * reading.rate(now) < median(others)
