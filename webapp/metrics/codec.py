"""Points to bytes and back, without loss.

A raw segment is the rows as they are. A compacted one is compressed by zstd column after column: steps as differences,
times as differences of differences, values as they are, each with the first bytes of all numbers together, then the
second bytes and so on, since neighbours share their leading bytes.
"""

import threading
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import zstandard

from platform_core.metrics.points import POINT, Points

Column: TypeAlias = npt.NDArray[Any]  # of int64 or float64
_LEVEL = 3
_COLUMNS = {
    "step": (0, 1),
    "at_ms": (1, 2),
    "value": (2, 0),
    "attempt": (3, 1),
}  # place, how often differenced
_local = threading.local()  # a compressor serves one thread at a time


def encode(points: Points, compacted: bool) -> bytes:
    if not compacted:
        return points.tobytes()
    columns = (
        _differences(points["step"].astype(np.uint64)),
        _differences(_differences(points["at_ms"].astype(np.uint64))),
        np.ascontiguousarray(points["value"]).view(np.uint64),
        _differences(points["attempt"].astype(np.uint64)),
    )
    return _compressor().compress(b"".join(_shuffled(column) for column in columns))


def decode(payload: bytes, compacted: bool) -> Points:
    if not compacted:
        return np.frombuffer(payload, POINT)
    columns = _decompressed(payload)
    points = np.empty(columns.shape[2], POINT)
    for name in _COLUMNS:
        points[name] = _column(columns, name)
    return points


def decode_columns(payload: bytes, compacted: bool, *names: str) -> tuple[Column, ...]:
    """The columns `names` of the points, each contiguous, without the work for the others."""
    if not compacted:
        points = np.frombuffer(payload, POINT)
        return tuple(np.ascontiguousarray(points[name]) for name in names)
    columns = _decompressed(payload)
    return tuple(_column(columns, name) for name in names)


def _decompressed(payload: bytes) -> npt.NDArray[np.uint8]:
    """Of shape (columns, bytes of a number, points)."""
    data = _decompressor().decompress(payload)
    return np.frombuffer(data, np.uint8).reshape(len(_COLUMNS), 8, -1)


def _column(columns: npt.NDArray[np.uint8], name: str) -> Column:
    place, differences = _COLUMNS[name]
    numbers = np.ascontiguousarray(columns[place].T).view(np.uint64)[:, 0]
    for _ in range(differences):
        numbers = np.cumsum(numbers)
    return numbers.view(np.float64 if name == "value" else np.int64)


def _differences(column: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Unsigned, so that they wrap around and no difference is too great."""
    return np.diff(column, prepend=np.uint64(0))


def _shuffled(column: npt.NDArray[np.uint64]) -> bytes:
    return column.view(np.uint8).reshape(-1, 8).T.tobytes()


def _compressor() -> zstandard.ZstdCompressor:
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    compressor: zstandard.ZstdCompressor = _local.compressor
    return compressor


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _local.decompressor
    return decompressor
