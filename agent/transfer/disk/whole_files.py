"""The SHA-256 of whole files, made in the order of their bytes while the pieces arrive."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from agent.transfer.disk.landing import Landing

_BATCH_BYTES = 8 << 20
_KEPT_BYTES = 32 << 20


class WholeFiles:
    """Pieces that come about in order are hashed from memory; the others are read back from the disk."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        self._digests = [hashlib.sha256() for _ in landing.manifest.files]
        self._next = 0
        self._at_once = max(1, _BATCH_BYTES // landing.manifest.piece_size)
        self._kept: dict[int, Sequence[memoryview]] = {}
        self._kept_bytes = 0

    def offer(self, number: int, parts: Sequence[memoryview]) -> None:
        """A piece that has just been verified."""
        size = sum(len(part) for part in parts)
        if number >= self._next and self._kept_bytes + size <= _KEPT_BYTES:
            self._kept[number] = parts
            self._kept_bytes += size

    async def wrong(self) -> list[str]:
        """Ends when all is here: the files without the right SHA-256."""
        landing = self._landing
        landing.on_piece = self.offer
        try:
            while self._next < landing.count:
                # Several at once: a thread for each piece would cost more than the hashing.
                last = min(self._next + self._at_once, landing.count) - 1
                for number in (last, self._next):
                    while not await landing.arrived(number, 60.0):
                        if landing.closed:
                            raise asyncio.CancelledError
                await asyncio.to_thread(self._add, self._batch())
        finally:
            landing.on_piece = None
        pairs = zip(landing.manifest.files, self._digests, strict=True)
        return [entry.path for entry, digest in pairs if digest.hexdigest() != entry.sha256]

    def _batch(self) -> list[tuple[int, Sequence[memoryview] | None]]:
        """The pieces that come next, as many as are here; None is one to be read."""
        batch: list[tuple[int, Sequence[memoryview] | None]] = []
        size = 0
        while self._next < self._landing.count and self._landing.has(self._next) and size < _BATCH_BYTES:
            parts = self._kept.pop(self._next, None)
            if parts is not None:
                self._kept_bytes -= sum(len(part) for part in parts)
            batch.append((self._next, parts))
            size += self._landing.manifest.piece_size
            self._next += 1
        return batch

    def _add(self, batch: list[tuple[int, Sequence[memoryview] | None]]) -> None:
        landing = self._landing
        for number, kept in batch:
            piece = landing.piece_at(number)
            digest = self._digests[landing.manifest.chunks[piece.chunk].file]
            for part in kept if kept is not None else (landing.read(piece),):
                digest.update(part)
