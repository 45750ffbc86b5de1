"""Curves of one metric of many subjects, from summaries of blocks where they suffice and from points elsewhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from platform_core.metrics import bands as pixels
from platform_core.metrics.bands import Bands, Frame, Mask, Stretches, Window
from platform_core.metrics.blocks import BLOCK, BLOCK_POINTS
from platform_core.metrics.points import Places, Points, merged
from webapp.metrics import codec, segments
from webapp.metrics.database import rows
from webapp.metrics.values import Axis

POINTS_AT_ONCE = 100_000  # of the series drawn in one pass: arrays that stay in the cache of the processor

_EXTENTS = """
SELECT id, subject_id, key, count, first_step, last_step, low_ms, high_ms FROM metrics_series
WHERE subject_id = ANY(%(subjects)s::text[]) AND key = ANY(%(keys)s::text[]) ORDER BY key, id
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


def bands(
    subjects: Iterable[str],
    key: str,
    *,
    columns: int,
    window: Window | Mapping[str, Window] | None = None,
    axis: Axis = "step",
    digits: int = 17,
) -> dict[str, Bands]:
    """The curve of each subject that has the metric, in at most so many columns (as many as it has points, if fewer).

    The columns divide the window, or without one the whole extent of each curve. A mapping gives each subject a window
    of its own, as charts over relative time need it. Wall time is in ms. Values have so many significant digits.
    """
    return bands_of_keys(subjects, [key], columns=columns, window=window, axis=axis, digits=digits)[key]


def bands_of_keys(
    subjects: Iterable[str],
    keys: Iterable[str],
    *,
    columns: int,
    window: Window | Mapping[str, Window] | None = None,
    axis: Axis = "step",
    digits: int = 17,
) -> dict[str, dict[str, Bands]]:
    """Metric → what `bands` returns for it, with fewer statements and passes than one call a metric."""
    if columns < 1:
        raise ValueError(f"a curve has at least one column, not {columns}")
    ids, names = list(subjects), list(keys)
    if axis.startswith("metric:"):
        other = axis.removeprefix("metric:")
        return {key: _over_metric(ids, key, other, columns, window, digits) for key in names}
    wall = axis == "wall"
    drawn: dict[tuple[str, str], Bands] = {}
    for series in _passes(rows(_EXTENTS, {"subjects": ids, "keys": names})):
        windows = [_window(window, row[1]) or (row[6:8] if wall else row[4:6]) for row in series]
        numbers, frame = [row[0] for row in series], Frame(windows, columns)
        curves = segments.of_one_state(partial(_over_time, numbers, frame, wall, digits))
        drawn |= {(row[2], row[1]): curve for row, curve in zip(series, curves, strict=True)}
    return {
        key: {subject: drawn[key, subject] for subject in ids if (key, subject) in drawn} for key in names
    }


def _passes(series: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Series whose points are drawn together."""
    together: list[tuple[Any, ...]] = []
    points = 0
    for row in series:
        if together and points + row[3] > POINTS_AT_ONCE:
            yield together
            together, points = [], 0
        together.append(row)
        points += row[3]
    if together:
        yield together


def _window(window: Window | Mapping[str, Window] | None, subject: str) -> Window | None:
    return window.get(subject) if isinstance(window, Mapping) else window


def _over_time(series: Sequence[int], frame: Frame, wall: bool, digits: int) -> list[Bands]:
    lows, highs = np.array(frame.windows, np.float64).reshape(-1, 2).T
    wanted = {"series": list(series), "lows": lows, "highs": highs}
    found = rows(_WALL_BLOCKS if wall else _STEP_BLOCKS, wanted)
    blocks = np.frombuffer(b"".join(row[2] for row in found), BLOCK)
    sizes = np.array([len(row[2]) // BLOCK.itemsize for row in found], np.int64)
    numbers = {id: number for number, id in enumerate(series)}
    owners = np.array([numbers[row[0]] for row in found], np.int64)
    low, high = ("low_ms", "high_ms") if wall else ("first_step", "last_step")
    stretches = Stretches(
        blocks,
        np.repeat(owners, sizes),
        np.ascontiguousarray(blocks[low]),
        np.ascontiguousarray(blocks[high]),
    )
    coarse = frame.too_coarse(stretches)
    ids, axis = [row[1] for row in found], "at_ms" if wall else "step"
    if ids and coarse.all():
        columns = segments.decoded_columns(ids, axis, "value")
        x, values = (np.concatenate(parts) for parts in zip(*(columns[id] for id in ids), strict=True))
        of_series = np.repeat(owners, [len(columns[id][0]) for id in ids])
        return pixels.of_points(values, of_series, x, frame, digits)
    if coarse.any():
        points, of_series = _points(ids, owners, sizes, coarse)
        x = np.ascontiguousarray(points[axis])
        stretches = pixels.beside(stretches.where(~coarse), pixels.gathered(points, of_series, x, frame))
    return pixels.bands(stretches, frame, digits)


def _points(ids: Sequence[int], owners: Places, sizes: Places, coarse: Mask) -> tuple[Points, Places]:
    """The points of these blocks, and the number of the series of each; `sizes` are blocks a segment."""
    starts = np.cumsum(sizes) - sizes
    needed = np.flatnonzero(np.logical_or.reduceat(coarse, starts)).tolist()
    found = segments.decoded([ids[place] for place in needed])
    parts, counts = [], []
    for place in needed:
        points, of_segment = found[ids[place]], coarse[starts[place] : starts[place] + sizes[place]]
        if not of_segment.all():
            points = points[np.repeat(of_segment, BLOCK_POINTS)[: len(points)]]
        parts.append(points)
        counts.append(len(points))
    return np.concatenate(parts), np.repeat(owners[needed], counts)


def _over_metric(
    subjects: Sequence[str],
    key: str,
    other: str,
    columns: int,
    window: Window | Mapping[str, Window] | None,
    digits: int,
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
            frame = Frame([extent], columns)
            drawn = pixels.gathered(chosen, np.zeros(len(x), np.int64), x, frame)
            [result[subject]] = pixels.bands(drawn, frame, digits)
    return result
