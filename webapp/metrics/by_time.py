"""Points of one series in the order of their times, by page: only the segments that a page needs are decoded."""

from functools import partial

import numpy as np

from platform_core.metrics.points import NONE, Points
from webapp.metrics import segments
from webapp.metrics.database import rows

_SEGMENTS = """
SELECT s.id, s.count, s.low_ms, s.high_ms
FROM metrics_segment s JOIN metrics_series m ON m.id = s.series_id
WHERE m.subject_id = %(subject)s AND m.key = %(key)s ORDER BY s.first_step, s.first_ms, s.id
"""


def points_by_time(subject: str, key: str, start: int = 0, stop: int | None = None) -> tuple[Points, int]:
    """The points from place `start` up to `stop` in the order of time, step and value, and how many the series has.

    Segments whose times overlap, as those of a clock that was set back, are read together.
    """
    return segments.of_one_state(partial(_points_by_time, subject, key, start, stop))


def _points_by_time(subject: str, key: str, start: int, stop: int | None) -> tuple[Points, int]:
    found = rows(_SEGMENTS, {"subject": subject, "key": key})
    if not found:
        return NONE, 0
    ids, counts, lows, highs = np.array(found, np.int64).T
    ends = np.cumsum(counts)
    total = int(ends[-1])
    stop = total if stop is None else min(stop, total)
    earlier, later = np.maximum.accumulate(highs), np.minimum.accumulate(lows[::-1])[::-1]
    cuts = np.concatenate(
        ([True], later[1:] > earlier[:-1])
    )  # nothing after one is earlier than anything before it
    group = np.cumsum(cuts) - 1
    group_starts = (ends - counts)[cuts]
    group_ends = np.append(group_starts[1:], total)
    chosen = np.flatnonzero((group_starts[group] < stop) & (group_ends[group] > start))
    if len(chosen) == 0:
        return NONE, total
    decoded = segments.decoded(ids[chosen].tolist())
    points = np.concatenate([decoded[id] for id in ids[chosen].tolist()])
    order = np.lexsort((points["value"], points["step"], points["at_ms"]))
    first = int(group_starts[group[chosen[0]]])
    return points[order[start - first if start > first else 0 : stop - first]], total
