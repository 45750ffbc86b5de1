"""Writes pieces past the kernel's page cache.

What was just verified is passed on from memory, so nobody reads it back. A model of hundreds of gigabytes would push
everything that the node's jobs read out of memory, and each page taken for it costs more than the hashing of its bytes.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_BLOCK = 4096  # what direct writes must be whole multiples of: place in the file, place in memory, and length
_BUFFER_BYTES = 4 << 20
_DIRECT = getattr(os, "O_DIRECT", 0)


class Writer:
    """For threads. Falls back to the page cache for what is not whole blocks, and where the file system has no other
    way."""

    def __init__(self) -> None:
        self._direct = bool(_DIRECT)
        self._own = threading.local()

    def write(self, directory: int, path: str, offset: int, parts: Sequence[memoryview]) -> None:
        size = sum(len(part) for part in parts)
        if self._direct and offset % _BLOCK == 0 and size % _BLOCK == 0:
            try:
                self._past_the_cache(directory, path, offset, parts)
                return
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._direct = False
        with _opened(directory, path, 0) as descriptor:
            for part in parts:
                _write(descriptor, part, offset)
                offset += len(part)

    def _past_the_cache(self, directory: int, path: str, offset: int, parts: Sequence[memoryview]) -> None:
        buffer = self._buffer()
        filled = 0
        with _opened(directory, path, _DIRECT) as descriptor:
            for part in parts:
                while part:
                    taken = min(len(part), _BUFFER_BYTES - filled)
                    buffer[filled : filled + taken] = part[:taken]
                    part, filled = part[taken:], filled + taken
                    if filled == _BUFFER_BYTES:
                        _write(descriptor, buffer, offset)
                        offset, filled = offset + filled, 0
            _write(descriptor, buffer[:filled], offset)

    def _buffer(self) -> memoryview:
        """A map of memory begins at a page; other memory need not."""
        if not hasattr(self._own, "buffer"):
            self._own.buffer = memoryview(mmap.mmap(-1, _BUFFER_BYTES))
        buffer: memoryview = self._own.buffer
        return buffer


@contextmanager
def _opened(directory: int, path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
