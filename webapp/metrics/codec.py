"""Points to bytes and back, without loss.

A raw segment is the rows as they are. A compacted one is compressed by zstd column after column: steps as differences,
times as differences of differences, values as they are, each with the first bytes of all numbers together, then the
second bytes and so on, since neighbours share their leading bytes.
"""

import threading

import numpy as np
import numpy.typing as npt
import zstandard

from platform_core.metrics.points import POINT, Points

_LEVEL = 3
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
    data = np.frombuffer(_decompressor().decompress(payload), np.uint8).reshape(4, 8, -1)
    columns = np.ascontiguousarray(data.transpose(0, 2, 1)).view(np.uint64)[:, :, 0]
    sums = np.cumsum(columns, axis=1)
    points = np.empty(columns.shape[1], POINT)
    points["step"] = sums[0].view(np.int64)
    points["at_ms"] = np.cumsum(sums[1]).view(np.int64)
    points["value"] = columns[2].view(np.float64)
    points["attempt"] = sums[3].view(np.int64)
    return points


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
