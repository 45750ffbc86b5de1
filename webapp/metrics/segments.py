"""Segments of series: how points are cut into them, which of them a batch meets, and their rows."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from platform_core.metrics.blocks import BLOCK, BLOCK_POINTS, NONE, Blocks, merge, summarise
from platform_core.metrics.points import Places, Points, merged, place
from webapp.metrics import codec
from webapp.metrics.database import rows

T = TypeVar("T")
SEGMENT_POINTS = 4_096
RAW_POINTS = 256  # more than these are worth compressing at once
READS = 8  # of a series that is written to meanwhile: two statements meet a write between them seldom, not 8 times


class Replaced(LookupError):
    """An append or a compaction has put other segments in the place of these."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A segment without its points."""

    id: int
    first_step: int
    first_ms: int
    last_step: int
    last_ms: int
    least_attempt: int
    greatest_attempt: int
    compacted: bool


@dataclass(frozen=True, slots=True)
class Pieces:
    """Segments that are to be written. `starts` are their first points, `block_starts` their first blocks, and
    `stretches` the number of the stretch (of the series) that each is of."""

    points: Points
    starts: Places
    blocks: Blocks
    block_starts: Places
    stretches: Places
    compacted: bool = False

    @property
    def sizes(self) -> Places:
        return np.diff(self.starts, append=len(self.points))


@dataclass(slots=True)
class Run:
    """Neighbours of one series that are small: each with its payload, and whether that is compacted."""

    series: int
    version: int = 0
    ids: list[int] = field(default_factory=list)
    payloads: list[tuple[bytes, bool]] = field(default_factory=list)


_SMALL = """
SELECT series_id, id, version, compacted, CASE WHEN count < %(full)s THEN payload END
FROM metrics_segment WHERE series_id = ANY(%(series)s::bigint[]) ORDER BY series_id, first_step, first_ms, id
"""
_EXTENTS = """
SELECT id, first_step, first_ms, last_step, last_ms, least_attempt, greatest_attempt, compacted
FROM metrics_segment
WHERE series_id = %(series)s AND last_step >= %(first)s AND first_step <= %(last)s
ORDER BY first_step, first_ms, id
"""
_PAYLOADS = "SELECT id, payload, compacted FROM metrics_segment WHERE id = ANY(%(ids)s::bigint[])"
_BLOCKS = """
SELECT blocks FROM metrics_segment WHERE series_id = %(series)s AND id <> ALL(%(without)s::bigint[])
ORDER BY first_step, first_ms, id
"""
_DELETE = "DELETE FROM metrics_segment WHERE id = ANY(%(ids)s::bigint[])"
_INSERT = """
INSERT INTO metrics_segment (
    series_id, version, least_attempt, greatest_attempt, compacted, count, first_step, first_ms, last_step, last_ms,
    low_ms, high_ms, blocks, payload
)
SELECT * FROM unnest(
    %(series)s::bigint[], %(version)s::bigint[], %(least)s::int[], %(greatest)s::int[], %(compacted)s::bool[],
    %(count)s::bigint[], %(first_step)s::bigint[], %(first_ms)s::bigint[], %(last_step)s::bigint[],
    %(last_ms)s::bigint[], %(low_ms)s::bigint[], %(high_ms)s::bigint[], %(blocks)s::bytea[], %(payload)s::bytea[]
)
"""
_EXTENT = ("count", "first_step", "first_ms", "last_step", "last_ms", "low_ms", "high_ms")


def extents(series: int, first_step: int = -(2**63), last_step: int = 2**63 - 1) -> list[Extent]:
    found = rows(_EXTENTS, {"series": series, "first": first_step, "last": last_step})
    return [Extent(*columns) for columns in found]


def of_one_state(read: Callable[[], T]) -> T:
    """What `read` returns, which is called anew when segments were replaced between its statements."""
    for _ in range(READS - 1):
        with suppress(Replaced):
            return read()
    return read()


def payloads(ids: Sequence[int]) -> list[tuple[int, bytes, bool]]:
    """Segment, payload and whether that is compacted. Raises Replaced when one of them is there no more."""
    found = rows(_PAYLOADS, {"ids": list(ids)}) if ids else []
    if len(found) < len(set(ids)):
        raise Replaced(
            f"{len(set(ids)) - len(found)} of {len(ids)} segments were replaced while they were read"
        )
    return found


def decoded(ids: Sequence[int]) -> dict[int, Points]:
    return {id: codec.decode(payload, compacted) for id, payload, compacted in payloads(ids)}


def decoded_columns(ids: Sequence[int], *names: str) -> dict[int, tuple[codec.Column, ...]]:
    """Segment → these columns of its points."""
    return {id: codec.decode_columns(payload, compacted, *names) for id, payload, compacted in payloads(ids)}


def blocks(series: int, without: Sequence[int] = ()) -> Blocks:
    """The summaries of all segments but these, in order."""
    found = rows(_BLOCKS, {"series": series, "without": list(without)})
    return np.frombuffer(b"".join(row[0] for row in found), BLOCK) if found else NONE


def meets(segment: Extent, batch: Points) -> bool:
    """Whether a point of the batch could replace a point of the segment, equal one, or stand among them."""
    low = int(np.searchsorted(batch["step"], segment.first_step, "left"))
    high = int(np.searchsorted(batch["step"], segment.last_step, "right"))
    if segment.least_attempt == segment.greatest_attempt == batch["attempt"][0]:
        low = max(low, place(batch, segment.first_step, segment.first_ms))
        high = min(high, place(batch, segment.last_step, segment.last_ms, after=True))
    return low < high


def replaced(series: int, batch: Points) -> tuple[list[int], Pieces]:
    """The segments that an ordered batch meets, and what takes their place, so that none overlap."""
    near = extents(series, int(batch["step"][0]), int(batch["step"][-1]))
    met = [segment for segment in near if meets(segment, batch)]
    together = merged([*decoded([segment.id for segment in met]).values(), batch])
    apart = [segment for segment in near if segment not in met]
    cuts = {0} | {place(together, segment.first_step, segment.first_ms) for segment in apart}
    starts = np.array(sorted(cuts - {len(together)}), np.int64)
    return [segment.id for segment in met], pieces(
        together, starts, any(segment.compacted for segment in met)
    )


def pieces(points: Points, starts: Places, compacted: bool = False) -> Pieces:
    """Ordered points, in stretches that begin at `starts`, as segments of at most 4,096."""
    ends = np.append(starts[1:], len(points))
    first, stretches = _spread(starts, ends, SEGMENT_POINTS)
    block_first, owners = _spread(first, np.append(first[1:], len(points)), BLOCK_POINTS)
    block_starts = np.searchsorted(owners, np.arange(len(first)))
    return Pieces(points, first, summarise(points, block_first), block_starts, stretches, compacted)


def _spread(starts: Places, ends: Places, size: int) -> tuple[Places, Places]:
    """The starts of parts of at most `size` in each stretch, and the number of the stretch of each."""
    parts = -((starts - ends) // size)
    owners = np.repeat(np.arange(len(starts)), parts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(parts) - parts, parts)
    return starts[owners] + within * size, owners


def without(new: Pieces, stretches: Places) -> Pieces:
    """The pieces of all stretches but these."""
    if len(stretches) == 0:
        return new
    kept = ~np.isin(new.stretches, stretches)
    points = np.repeat(kept, new.sizes)
    block_sizes = np.diff(new.block_starts, append=len(new.blocks))
    return Pieces(
        new.points[points],
        np.cumsum(new.sizes[kept]) - new.sizes[kept],
        new.blocks[np.repeat(kept, block_sizes)],
        np.cumsum(block_sizes[kept]) - block_sizes[kept],
        new.stretches[kept],
        new.compacted,
    )


def runs_of_small_ones(series: Sequence[int]) -> list[Run]:
    """What is worth one segment; a small compacted one among full ones stays as it is."""
    runs: list[Run] = []
    full = True
    for owner, id, version, compacted, payload in rows(
        _SMALL, {"series": list(series), "full": SEGMENT_POINTS}
    ):
        if payload is not None:
            if full or runs[-1].series != owner:
                runs.append(Run(owner))
            runs[-1].version = max(version, runs[-1].version)
            runs[-1].ids.append(id)
            runs[-1].payloads.append((payload, compacted))
        full = payload is None
    return [run for run in runs if len(run.ids) > 1 or not run.payloads[0][1]]


def write(series: Places, versions: Places | int, new: Pieces) -> None:
    """Inserts segments; `series` has the id of the series of each stretch."""
    ends = np.append(new.starts[1:], len(new.points))
    block_ends = np.append(new.block_starts[1:], len(new.blocks))
    compacted = new.compacted | (new.sizes > RAW_POINTS)
    bounds = zip(new.starts.tolist(), ends.tolist(), compacted.tolist(), strict=True)
    summaries = merge(new.blocks, new.block_starts)
    parameters = {
        "series": series[new.stretches],
        "version": np.broadcast_to(np.asarray(versions, np.int64), len(new.starts)),
        "least": np.minimum.reduceat(new.points["attempt"], new.starts),
        "greatest": np.maximum.reduceat(new.points["attempt"], new.starts),
        "compacted": compacted,
        **{name: summaries[name] for name in _EXTENT},
        "blocks": [
            new.blocks[first:end].tobytes()
            for first, end in zip(new.block_starts.tolist(), block_ends.tolist(), strict=True)
        ],
        "payload": [codec.encode(new.points[first:end], packed) for first, end, packed in bounds],
    }
    rows(_INSERT, parameters)


def drop(ids: Sequence[int]) -> None:
    if ids:
        rows(_DELETE, {"ids": list(ids)})
