"""Curves of one metric of several runs, as charts and REST take them: columns of a window, and seeds as one band."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast

from platform_core.errors import TrainmasterError
from platform_core.experiments import seeds
from platform_core.experiments.series import smooth
from webapp.experiments.comparison import config
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Bands

MOST_RUNS = 100  # compared at once
MOST_COLUMNS, LEAST_COLUMNS = 2_000, 60
COLUMNS_OF_ALL = 5_000  # of the runs of a chart together, unless the caller asks for a number
_SMOOTHED_COLUMNS = 400
_DIGITS = 6  # as exact as a screen can show
_AXES = {"step": "step", "": "step", "relative": "elapsed", "time": "elapsed", "wall": "time"}
_FORMAT = 4  # of the values; a browser may keep those of an older release

Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """`kind` is step, elapsed (seconds since a run began), time (ms since 1970) or value (of the metric `key`)."""

    kind: str = "step"
    key: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """One entry a column: the mean of `counts` points between `low` and `high`; `gaps` are the x of values that are
    not finite, `last` the newest finite value. A curve of several runs is their median and has no `last`."""

    runs: tuple[Run, ...]
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    last: float | None = None


def axis_of(text: str) -> Axis:
    """Reads step, relative, wall or metric:KEY. Raises request_invalid."""
    kind, _, key = text.partition(":")
    if kind == "metric" and key:
        return Axis("value", key)
    if text in _AXES:
        return Axis(_AXES[text])
    why = f"{text[:60]!r} is none of step, relative, wall and metric:KEY"
    raise TrainmasterError("request_invalid", what="x", why=why)


def window_of(query: Mapping[str, Any]) -> Window | None:
    """Reads from= and to=. Raises request_invalid."""
    ends = [str(query.get(name, "") or "") for name in ("from", "to")]
    if ends == ["", ""]:
        return None
    try:
        low, high = (float(end) for end in ends)
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        why = f"{ends[0][:20]!r} to {ends[1][:20]!r} is no window; give two numbers, the smaller first"
        raise TrainmasterError("request_invalid", what="from and to", why=why)
    return low, high


def columns_of(text: str, runs: int) -> int:
    """Reads columns=, or chooses so many that the runs of a chart stay light. Raises request_invalid."""
    if not text:
        return max(LEAST_COLUMNS, min(600, COLUMNS_OF_ALL // max(1, runs)))
    if not re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) or not 1 <= int(text) <= MOST_COLUMNS:
        why = f"{text[:20]!r} is no number from 1 to {MOST_COLUMNS}"
        raise TrainmasterError("request_invalid", what="columns", why=why)
    return int(text)


def etag(runs: Sequence[Run], asked: Sequence[Any]) -> str:
    """Changes whenever a curve of these runs may, without a look at the points."""
    state = [(run.id, run.name, run.started_ms, run.ended_ms, run.changed_ms) for run in runs]
    versions = metrics.version(run.id for run in runs)
    return f'"{sha256(json.dumps([_FORMAT, list(asked), state, versions]).encode()).hexdigest()[:32]}"'


def curves(
    runs: Sequence[Run], key: str, axis: Axis, columns: int, window: Window | None = None
) -> list[Curve]:
    """One curve a run, in the order of the runs; a run without the metric has an empty one."""
    return curves_of_keys(runs, [key], axis, columns, window)[key]


def curves_of_keys(
    runs: Sequence[Run], keys: Sequence[str], axis: Axis, columns: int, window: Window | None = None
) -> dict[str, list[Curve]]:
    """Metric → the curves of the runs, in their order."""
    origins = {run.id: origin_ms(run) for run in runs}
    drawn = metrics.bands_of_keys(
        [run.id for run in runs],
        keys,
        columns=columns,
        window=_windows(origins, axis, window),
        axis={"step": "step", "value": f"metric:{axis.key}"}.get(axis.kind, "wall"),
        digits=_DIGITS,
    )
    elapsed = axis.kind == "elapsed"
    return {
        key: [
            _curve(run, drawn[key].get(run.id, Bands()), origins[run.id] if elapsed else None) for run in runs
        ]
        for key in keys
    }


def origin_ms(run: Run) -> int:
    return run.started_ms or run.created_ms


def _windows(origins: Mapping[str, int], axis: Axis, window: Window | None) -> Any:
    if window is None or axis.kind == "value":
        return window
    low, high = window
    if axis.kind != "elapsed":
        return _whole(low, high)
    return {run: _whole(origin + low * 1000, origin + high * 1000) for run, origin in origins.items()}


def _whole(low: float, high: float) -> tuple[int, int]:
    bounds = (max(-(2**62), min(2**62, end)) for end in (math.floor(low), math.ceil(high)))
    return next(bounds), next(bounds)


def _curve(run: Run, bands: Bands, origin: int | None) -> Curve:
    x = [low if low == high else (low + high) / 2 for low, high in zip(bands.x_from, bands.x_to, strict=True)]
    if len(x) > 1:  # a curve begins at its first point and ends at its last
        x[0], x[-1] = bands.x_from[0], bands.x_to[-1]
    if origin is not None:
        x = [(place - origin) / 1000 for place in x]
    last = next((value for value in reversed(bands.last) if value is not None), None)
    if not any(bands.non_finite):
        # A column of finite values alone has all three of them.
        mean, low, high = (cast(list[float], values) for values in (bands.mean, bands.low, bands.high))
        return Curve((run,), x, mean, low, high, bands.count, last=last)
    gaps = [place for place, count in zip(x, bands.non_finite, strict=True) if count]
    counts = [count - non_finite for count, non_finite in zip(bands.count, bands.non_finite, strict=True)]
    return Curve(
        (run,),
        [place for place, count in zip(x, counts, strict=True) if count],
        _numbers(bands.mean),
        _numbers(bands.low),
        _numbers(bands.high),
        [count for count in counts if count],
        gaps,
        last,
    )


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Without the columns that have no finite value."""
    return [value for value in values if value is not None]


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def seed_groups(runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    """Runs whose settings are equal in all but seed and name."""
    return [
        tuple(runs[place] for place in group) for group in seeds.seed_groups([_settings(run) for run in runs])
    ]


def _settings(run: Run) -> dict[str, Any]:
    """Where a run came to lie and from which state it went on says nothing about what was tried."""
    left_out = ("hardware", "resume_from", "git_commit")
    return {name: value for name, value in config(run).items() if name not in left_out}


def grouped(all_curves: Iterable[Curve], groups: Sequence[tuple[Run, ...]], columns: int) -> list[Curve]:
    """One curve a group: the median of its runs, between the least and the greatest of them."""
    by_run = {curve.runs[0].id: curve for curve in all_curves}
    return [
        by_run[group[0].id] if len(group) == 1 else _band(group, [by_run[run.id] for run in group], columns)
        for group in groups
    ]


def _band(group: tuple[Run, ...], of_group: Sequence[Curve], columns: int) -> Curve:
    band = seeds.seed_band(
        [seeds.Curve(curve.x, curve.y) for curve in of_group], max(columns, 10 + len(group))
    )
    gaps = sorted({x for curve in of_group for x in curve.gaps})
    y, low, high = ([_short(value) for value in values] for values in (band.median, band.low, band.high))
    return Curve(group, band.x, y, low, high, band.runs, gaps)


def smoothed_last(runs: Sequence[Run], key: str, weight: float) -> dict[str, float]:
    """Run id → the last value of its curve, smoothed by the exponential rule; runs without the metric are left out."""
    return {
        curve.runs[0].id: smooth(curve.y, weight, curve.counts)[-1]
        for curve in curves(runs, key, Axis(), _SMOOTHED_COLUMNS)
        if curve.y
    }
