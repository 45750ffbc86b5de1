"""Curves of one metric of many subjects, from summaries of blocks where they suffice and from points elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from platform_core.metrics import bands as pixels
from platform_core.metrics.bands import Bands, Stretches, Window
from platform_core.metrics.blocks import BLOCK, BLOCK_POINTS
from platform_core.metrics.points import Points, merged
from webapp.metrics import codec, segments
from webapp.metrics.database import rows
from webapp.metrics.values import Axis

_EXTENTS = """
SELECT id, subject_id, first_step, last_step, low_ms, high_ms FROM metrics_series
WHERE subject_id = ANY(%(subjects)s::text[]) AND key = %(key)s
"""
_BLOCKS = """
SELECT s.series_id, s.id, s.blocks
FROM unnest(%(series)s::bigint[], %(lows)s::float8[], %(highs)s::float8[]) AS wanted (series_id, low, high)
JOIN metrics_segment s ON s.series_id = wanted.series_id AND {last} >= wanted.low AND {first} <= wanted.high
ORDER BY s.series_id, s.first_step, s.first_ms, s.id
"""
_STEP_BLOCKS = _BLOCKS.format(first="s.first_step", last="s.last_step")
_WALL_BLOCKS = _BLOCKS.format(first="s.low_ms", last="s.high_ms")
_ALL = """
SELECT m.subject_id, m.key, s.compacted, s.payload
FROM metrics_segment s JOIN metrics_series m ON m.id = s.series_id
WHERE m.subject_id = ANY(%(subjects)s::text[]) AND m.key = ANY(%(keys)s::text[])
"""


@dataclass(frozen=True, slots=True)
class _Series:
    id: int
    subject: str
    window: Window


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a curve is drawn from: whole blocks, and of some segments the points of these blocks."""

    whole: Stretches
    points: Mapping[int, npt.NDArray[np.bool_]]


def bands(
    subjects: Iterable[str],
    key: str,
    *,
    columns: int,
    window: Window | Mapping[str, Window] | None = None,
    axis: Axis = "step",
) -> dict[str, Bands]:
    """The curve of each subject that has the metric, in at most so many columns (as many as it has points, if fewer).

    The columns divide the window, or without one the whole extent of each curve. A mapping gives each subject a window
    of its own, as charts over relative time need it. Wall time is in ms.
    """
    if columns < 1:
        raise ValueError(f"a curve has at least one column, not {columns}")
    ids = list(subjects)
    if axis.startswith("metric:"):
        return _over_metric(ids, key, axis.removeprefix("metric:"), columns, window)
    wall = axis == "wall"
    series = [
        _Series(
            id, subject, _window(window, subject) or ((low_ms, high_ms) if wall else (first_step, last_step))
        )
        for id, subject, first_step, last_step, low_ms, high_ms in rows(
            _EXTENTS, {"subjects": ids, "key": key}
        )
    ]
    drawn = _over_time(series, columns, wall)
    return {subject: drawn[subject] for subject in ids if subject in drawn}


def _window(window: Window | Mapping[str, Window] | None, subject: str) -> Window | None:
    return window.get(subject) if isinstance(window, Mapping) else window


def _over_time(series: Sequence[_Series], columns: int, wall: bool) -> dict[str, Bands]:
    wanted = {
        "series": [line.id for line in series],
        "lows": [float(line.window[0]) for line in series],
        "highs": [float(line.window[1]) for line in series],
    }
    summaries: dict[int, dict[int, bytes]] = {line.id: {} for line in series}
    for series_id, segment, blocks in rows(_WALL_BLOCKS if wall else _STEP_BLOCKS, wanted):
        summaries[series_id][segment] = blocks
    plans = [_plan(summaries[line.id], line.window, columns, wall) for line in series]
    points = segments.decoded([segment for plan in plans for segment in plan.points])
    return {
        line.subject: _drawn(plan, points, line.window, columns, wall)
        for line, plan in zip(series, plans, strict=True)
    }


def _plan(summaries: Mapping[int, bytes], window: Window, columns: int, wall: bool) -> _Plan:
    blocks = np.frombuffer(b"".join(summaries.values()), BLOCK)
    low, high = ("low_ms", "high_ms") if wall else ("first_step", "last_step")
    x_low, x_high = np.ascontiguousarray(blocks[low]), np.ascontiguousarray(blocks[high])
    coarse = pixels.too_coarse((blocks, x_low, x_high), window, columns)
    sizes = [len(part) // BLOCK.itemsize for part in summaries.values()]
    parts = np.split(coarse, np.cumsum(sizes)[:-1]) if sizes else []
    return _Plan(
        (blocks[~coarse], x_low[~coarse], x_high[~coarse]),
        {segment: part for segment, part in zip(summaries, parts, strict=True) if part.any()},
    )


def _drawn(plan: _Plan, points: Mapping[int, Points], window: Window, columns: int, wall: bool) -> Bands:
    if not plan.points:
        return pixels.bands(plan.whole, window, columns)
    together = np.concatenate(
        [points[id][np.repeat(part, BLOCK_POINTS)[: len(points[id])]] for id, part in plan.points.items()]
    )
    x = np.ascontiguousarray(together["at_ms" if wall else "step"])
    drawn = pixels.gathered(together, x, window, columns)
    return pixels.bands(pixels.beside(plan.whole, drawn), window, columns)


def _over_metric(
    subjects: Sequence[str], key: str, other: str, columns: int, window: Window | Mapping[str, Window] | None
) -> dict[str, Bands]:
    parts: dict[tuple[str, str], list[Points]] = {}
    for subject, name, compacted, payload in rows(_ALL, {"subjects": list(subjects), "keys": [key, other]}):
        parts.setdefault((subject, name), []).append(codec.decode(payload, compacted))
    points = {series: merged(part) for series, part in parts.items()}
    result = {}
    for subject in subjects:
        if (subject, key) in points and (subject, other) in points:
            chosen, x = pixels.over_metric(points[subject, key], points[subject, other])
            extent = _window(window, subject) or ((float(x.min()), float(x.max())) if len(x) else (0.0, 0.0))
            result[subject] = pixels.bands(pixels.gathered(chosen, x, extent, columns), extent, columns)
    return result
