"""One bit for each piece of a manifest, on disk as it is in memory."""

from __future__ import annotations

import os
from pathlib import Path


class Bitmap:
    """Bit i is bit i % 8 of byte i // 8. A bit that was set survives the death of the process."""

    def __init__(self, path: Path, length: int) -> None:
        self._length = length
        size = (length + 7) // 8
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self._file, size)
        self.bits = bytearray(os.pread(self._file, size, 0))

    def __getitem__(self, index: int) -> bool:
        return bool(self.bits[index // 8] >> index % 8 & 1)

    def __len__(self) -> int:
        return self._length

    def set(self, index: int) -> None:
        self._store(index, self.bits[index // 8] | 1 << index % 8)

    def clear(self, index: int) -> None:
        self._store(index, self.bits[index // 8] & ~(1 << index % 8))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _store(self, index: int, value: int) -> None:
        self.bits[index // 8] = value
        os.pwrite(self._file, bytes([value]), index // 8)
