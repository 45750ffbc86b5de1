"""The rows of series as columns: the summary of each, and what waits for compaction."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from platform_core.metrics.blocks import BLOCK
from platform_core.metrics.points import Places, Points
from webapp.metrics.database import rows
from webapp.metrics.segments import SEGMENT_POINTS, Pieces

_STATE = [
    ("id", "<i8"), ("least_attempt", "<i4"), ("greatest_attempt", "<i4"), ("pending_segments", "<i8"),
    ("pending_points", "<i8"),
]  # fmt: skip
HEAD = np.dtype([*_STATE, ("summary", BLOCK)])
Heads: TypeAlias = npt.NDArray[np.void]  # of HEAD

_LOAD = """
SELECT key, id, least_attempt, greatest_attempt, pending_segments, pending_points,
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
SELECT %(subject)s, %(version)s, key, least_attempt, greatest_attempt, pending_segments, pending_points,
       first_step, last_step, first_ms, last_ms, low_ms, high_ms, count, finite, first, last,
       CASE WHEN finite > 0 THEN min END, CASE WHEN finite > 0 THEN max END, CASE WHEN finite > 0 THEN min_step END,
       CASE WHEN finite > 0 THEN max_step END, sum
FROM unnest(
    %(key)s::text[], %(least_attempt)s::int[], %(greatest_attempt)s::int[], %(pending_segments)s::bigint[],
    %(pending_points)s::bigint[], %(first_step)s::bigint[], %(last_step)s::bigint[], %(first_ms)s::bigint[],
    %(last_ms)s::bigint[], %(low_ms)s::bigint[], %(high_ms)s::bigint[], %(count)s::bigint[], %(finite)s::bigint[],
    %(first)s::float8[], %(last)s::float8[], %(min)s::float8[], %(max)s::float8[], %(min_step)s::bigint[],
    %(max_step)s::bigint[], %(sum)s::float8[]
) AS head (
    key, least_attempt, greatest_attempt, pending_segments, pending_points, first_step, last_step, first_ms, last_ms,
    low_ms, high_ms, count, finite, first, last, min, max, min_step, max_step, sum
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


def load(subject: str, keys: Sequence[str], attempt: int) -> Heads:
    """One for each key; those of new series have the id 0."""
    found = {row[0]: row for row in rows(_LOAD, {"subject": subject, "keys": list(keys)})}
    fresh = (0, attempt, attempt, 0, 0, np.zeros((), BLOCK))
    return np.array([(*row[1:6], row[6:]) if (row := found.get(key)) else fresh for key in keys], HEAD)


def followed(heads: Heads, firsts: Points) -> npt.NDArray[np.bool_]:
    """Which known series the batch goes on with: it neither replaces, repeats nor precedes a point. `firsts` are the
    first points of the batch, one for each series."""
    last_step, last_ms = heads["summary"]["last_step"], heads["summary"]["last_ms"]
    same_attempt = (heads["least_attempt"] == firsts["attempt"]) & (
        heads["greatest_attempt"] == firsts["attempt"]
    )
    beside = same_attempt & (firsts["step"] == last_step) & (firsts["at_ms"] > last_ms)
    result: npt.NDArray[np.bool_] = (heads["id"] > 0) & ((firsts["step"] > last_step) | beside)
    return result


def grown(heads: Heads, attempt: int, new: Pieces) -> Heads:
    """With the attempt and the segments that the batch adds; their summaries are as before."""
    sizes = new.sizes
    small = sizes < SEGMENT_POINTS
    result = heads.copy()
    result["least_attempt"] = np.minimum(heads["least_attempt"], attempt)
    result["greatest_attempt"] = np.maximum(heads["greatest_attempt"], attempt)
    result["pending_segments"] += _sums(new.stretches, small, len(heads))
    result["pending_points"] += _sums(new.stretches, sizes * small, len(heads))
    return result


def _sums(groups: Places, values: npt.NDArray[Any], count: int) -> Places:
    return np.bincount(groups, values, count).astype(np.int64)


def write(subject: str, version: int, keys: Sequence[str], heads: Heads) -> Places:
    """Inserts or updates the rows; returns the id of each."""
    parameters = {name: heads[name] for name, _ in _STATE[1:]} | {
        name: heads["summary"][name] for name in BLOCK.names or ()
    }
    ids: dict[str, int] = dict(
        rows(_WRITE, {**parameters, "key": list(keys), "subject": subject, "version": version})
    )
    return np.array([ids[key] for key in keys], np.int64)
