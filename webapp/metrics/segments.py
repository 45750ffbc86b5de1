"""Where points of a series go: which segments a batch meets, and what is written in their place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from platform_core.metrics.blocks import BLOCK, BLOCK_POINTS, NONE, Blocks, summarise
from platform_core.metrics.points import Places, Points, merged, place
from webapp.metrics import codec
from webapp.metrics.database import rows

SEGMENT_POINTS = 4_096
RAW_POINTS = 256  # more than these are worth compressing at once


@dataclass(frozen=True, slots=True)
class Extent:
    """A segment without its points."""

    id: int
    first_step: int
    first_ms: int
    last_step: int
    last_ms: int
    count: int
    least_attempt: int
    greatest_attempt: int
    compacted: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment that is to be written."""

    points: Points
    blocks: Blocks
    compacted: bool


_EXTENTS = """
SELECT id, first_step, first_ms, last_step, last_ms, count, least_attempt, greatest_attempt, compacted
FROM metrics_segment
WHERE series_id = %(series)s AND last_step >= %(first)s AND first_step <= %(last)s
ORDER BY first_step, first_ms, id
"""
_PAYLOADS = "SELECT id, compacted, payload FROM metrics_segment WHERE id = ANY(%(ids)s::bigint[])"
_BLOCKS = """
SELECT blocks FROM metrics_segment WHERE series_id = %(series)s AND id <> ALL(%(except)s::bigint[])
ORDER BY first_step, first_ms, id
"""
_DELETE = "DELETE FROM metrics_segment WHERE id = ANY(%(ids)s::bigint[])"
_INSERT = """
INSERT INTO metrics_segment (
    version, series_id, least_attempt, greatest_attempt, compacted, count, first_step, first_ms, last_step, last_ms,
    low_ms, high_ms, blocks, payload
)
SELECT %(version)s, * FROM unnest(
    %(series)s::bigint[], %(least)s::int[], %(greatest)s::int[], %(compacted)s::bool[], %(count)s::int[],
    %(first_step)s::bigint[], %(first_ms)s::bigint[], %(last_step)s::bigint[], %(last_ms)s::bigint[],
    %(low_ms)s::bigint[], %(high_ms)s::bigint[], %(blocks)s::bytea[], %(payload)s::bytea[]
)
"""


def extents(series: int, first_step: int = -(2**63), last_step: int = 2**63 - 1) -> list[Extent]:
    found = rows(_EXTENTS, {"series": series, "first": first_step, "last": last_step})
    return [Extent(*columns) for columns in found]


def decoded(ids: Sequence[int]) -> dict[int, Points]:
    found = rows(_PAYLOADS, {"ids": list(ids)}) if ids else []
    return {id: codec.decode(payload, compacted) for id, compacted, payload in found}


def blocks(series: int, without: Sequence[int] = ()) -> Blocks:
    """The summaries of all segments but these, in order."""
    found = rows(_BLOCKS, {"series": series, "except": list(without)})
    return np.frombuffer(b"".join(row[0] for row in found), BLOCK) if found else NONE


def meets(segment: Extent, batch: Points) -> bool:
    """Whether a point of the batch could replace a point of the segment, equal one, or stand among them."""
    low = int(np.searchsorted(batch["step"], segment.first_step, "left"))
    high = int(np.searchsorted(batch["step"], segment.last_step, "right"))
    if segment.least_attempt == segment.greatest_attempt == batch["attempt"][0]:
        low = max(low, place(batch, segment.first_step, segment.first_ms))
        high = min(high, place(batch, segment.last_step, segment.last_ms, after=True))
    return low < high


def replaced(series: int, batch: Points) -> tuple[list[Extent], list[Piece]]:
    """The segments that an ordered batch meets, and what takes their place, so that none overlap."""
    near = extents(series, int(batch["step"][0]), int(batch["step"][-1]))
    met = [segment for segment in near if meets(segment, batch)]
    together = merged([*decoded([segment.id for segment in met]).values(), batch])
    apart = [segment for segment in near if segment not in met]
    cuts = {0} | {place(together, segment.first_step, segment.first_ms) for segment in apart}
    starts = np.array(sorted(cuts - {len(together)}), np.int64)
    compacted = any(segment.compacted for segment in met)
    return met, [piece for stretch in pieces(together, starts, compacted) for piece in stretch]


def pieces(points: Points, starts: Places, compacted: bool = False) -> Iterator[list[Piece]]:
    """For each stretch of ordered points that begins at one of `starts`: segments of at most 4,096."""
    ends = [*starts[1:].tolist(), len(points)]
    bounds = [
        [(first, min(first + SEGMENT_POINTS, end)) for first in range(start, end, SEGMENT_POINTS)]
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]
    block_starts = [
        index for stretch in bounds for first, end in stretch for index in range(first, end, BLOCK_POINTS)
    ]
    summaries = summarise(points, np.array(block_starts, np.int64))
    done = 0
    for stretch in bounds:
        result = []
        for first, end in stretch:
            following = done + -(-(end - first) // BLOCK_POINTS)
            part = points[first:end]
            result.append(Piece(part, summaries[done:following], compacted or len(part) > RAW_POINTS))
            done = following
        yield result


def write(version: int, written: Sequence[tuple[int, Piece]]) -> None:
    """Inserts segments, each with the id of its series."""
    if not written:
        return
    firsts = np.array([piece.blocks[0] for _, piece in written], BLOCK)
    lasts = np.array([piece.blocks[-1] for _, piece in written], BLOCK)
    parameters: dict[str, Any] = {
        "version": version,
        "series": [series for series, _ in written],
        "least": [int(piece.points["attempt"].min()) for _, piece in written],
        "greatest": [int(piece.points["attempt"].max()) for _, piece in written],
        "compacted": [piece.compacted for _, piece in written],
        "count": [len(piece.points) for _, piece in written],
        "first_step": firsts["first_step"].tolist(),
        "first_ms": firsts["first_ms"].tolist(),
        "last_step": lasts["last_step"].tolist(),
        "last_ms": lasts["last_ms"].tolist(),
        "low_ms": [int(piece.blocks["low_ms"].min()) for _, piece in written],
        "high_ms": [int(piece.blocks["high_ms"].max()) for _, piece in written],
        "blocks": [piece.blocks.tobytes() for _, piece in written],
        "payload": [codec.encode(piece.points, piece.compacted) for _, piece in written],
    }
    rows(_INSERT, parameters)


def drop(ids: Sequence[int]) -> None:
    if ids:
        rows(_DELETE, {"ids": list(ids)})
