"""The rows of series: the summary of each, and what waits for compaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from platform_core.metrics.blocks import BLOCK, Blocks
from platform_core.metrics.points import Points
from webapp.metrics.database import rows
from webapp.metrics.segments import SEGMENT_POINTS, Piece


@dataclass(frozen=True, slots=True)
class Head:
    id: int
    key: str
    least_attempt: int
    greatest_attempt: int
    pending_segments: int
    pending_points: int
    summary: tuple[Any, ...]  # of BLOCK

    def is_followed_by(self, batch: Points) -> bool:
        """Whether an ordered batch stands behind all points, and neither replaces nor repeats one of them."""
        last_step, last_ms = self.summary[_LAST_STEP], self.summary[_LAST_MS]
        first_step, first_ms, attempt = (int(batch[name][0]) for name in ("step", "at_ms", "attempt"))
        same_attempt = self.least_attempt == self.greatest_attempt == attempt
        return first_step > last_step or (same_attempt and (first_step, first_ms) > (last_step, last_ms))

    def with_pieces(self, pieces: Sequence[Piece], attempt: int) -> "Head":
        small = [len(piece.points) for piece in pieces if len(piece.points) < SEGMENT_POINTS]
        return replace(
            self,
            least_attempt=min(self.least_attempt, attempt),
            greatest_attempt=max(self.greatest_attempt, attempt),
            pending_segments=self.pending_segments + len(small),
            pending_points=self.pending_points + sum(small),
        )


_FIELDS = BLOCK.names or ()
_LAST_STEP, _LAST_MS = _FIELDS.index("last_step"), _FIELDS.index("last_ms")
_EXTREMES = ("min", "min_step", "max", "max_step")
_INTEGERS = ("id", "least_attempt", "greatest_attempt", "pending_segments", "pending_points")

_LOAD = """
SELECT id, key, least_attempt, greatest_attempt, pending_segments, pending_points,
       first_step, last_step, first_ms, last_ms, low_ms, high_ms, count, finite, first, last,
       coalesce(min, 'infinity'), coalesce(max, '-infinity'), coalesce(min_step, 0), coalesce(max_step, 0), sum
FROM metrics_series WHERE subject_id = %(subject)s AND key = ANY(%(keys)s::text[])
"""
_WRITE = """
INSERT INTO metrics_series (
    subject_id, version, key, least_attempt, greatest_attempt, pending_segments, pending_points,
    first_step, last_step, first_ms, last_ms, low_ms, high_ms, count, finite, first, last, min, max, min_step,
    max_step, sum
)
SELECT %(subject)s, %(version)s, * FROM unnest(
    %(key)s::text[], %(least_attempt)s::int[], %(greatest_attempt)s::int[], %(pending_segments)s::int[],
    %(pending_points)s::int[], %(first_step)s::bigint[], %(last_step)s::bigint[], %(first_ms)s::bigint[],
    %(last_ms)s::bigint[], %(low_ms)s::bigint[], %(high_ms)s::bigint[], %(count)s::bigint[], %(finite)s::bigint[],
    %(first)s::float8[], %(last)s::float8[], %(min)s::float8[], %(max)s::float8[], %(min_step)s::bigint[],
    %(max_step)s::bigint[], %(sum)s::float8[]
)
ON CONFLICT (subject_id, key) DO UPDATE SET (
    version, least_attempt, greatest_attempt, pending_segments, pending_points,
    first_step, last_step, first_ms, last_ms, low_ms, high_ms, count, finite, first, last, min, max, min_step,
    max_step, sum
) = (
    EXCLUDED.version, EXCLUDED.least_attempt, EXCLUDED.greatest_attempt, EXCLUDED.pending_segments,
    EXCLUDED.pending_points, EXCLUDED.first_step, EXCLUDED.last_step, EXCLUDED.first_ms, EXCLUDED.last_ms,
    EXCLUDED.low_ms, EXCLUDED.high_ms, EXCLUDED.count, EXCLUDED.finite, EXCLUDED.first, EXCLUDED.last, EXCLUDED.min,
    EXCLUDED.max, EXCLUDED.min_step, EXCLUDED.max_step, EXCLUDED.sum
)
RETURNING key, id
"""


def load(subject: str, keys: Sequence[str]) -> dict[str, Head]:
    found = rows(_LOAD, {"subject": subject, "keys": list(keys)})
    return {row[1]: Head(row[0], row[1], row[2], row[3], row[4], row[5], row[6:]) for row in found}


def fresh(key: str, attempt: int) -> Head:
    return Head(0, key, attempt, attempt, 0, 0, ())


def summaries(heads: Sequence[Head]) -> Blocks:
    return np.array([tuple(head.summary) for head in heads], BLOCK)


def write(subject: str, version: int, heads: Sequence[Head], summaries: Blocks) -> dict[str, int]:
    """Inserts or updates the rows; returns the id of each key."""
    parameters: dict[str, Any] = {
        name: [getattr(head, name) for head in heads] for name in ("key", *_INTEGERS)
    }
    parameters |= {name: cast(Any, summaries[name]).tolist() for name in _FIELDS}
    for index in np.flatnonzero(summaries["finite"] == 0).tolist():
        for name in _EXTREMES:
            parameters[name][index] = None
    parameters |= {"subject": subject, "version": version}
    return dict(rows(_WRITE, parameters))
