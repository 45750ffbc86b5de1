"""Curves as the pages take them: a chart names the address of its values, and fetches them when it comes into view."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

from django.urls import reverse

from platform_core.experiments.comparison import direction, headline
from webapp.experiments.comparison import metric_names
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Bands

MOST_COLUMNS = 600
MOST_CHARTS = 24
_FORMAT = 2  # of the values; a browser may keep those of an older release


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the charts of a page are drawn. `x` is "step" or "time" (since each run began)."""

    x: str = "step"
    weight: float = 0.0
    scale: str = "linear"


def of_runs(runs: Sequence[Run], keys: Sequence[str], drawing: Drawing | None = None) -> list[dict[str, Any]]:
    """One chart for each metric."""
    return [_chart(runs, key, drawing or Drawing()) for key in keys]


def _chart(runs: Sequence[Run], key: str, drawing: Drawing) -> dict[str, Any]:
    query = urlencode({"runs": ",".join(run.id for run in runs), "key": key, "x": drawing.x})
    return {
        "id": f"chart-{crc32(key.encode()):08x}",
        "key": key,
        "title": key.replace("_", " "),
        "note": "lower is better" if direction(key) < 0 else "",
        "url": f"{reverse('experiments:curves')}?{query}",
        "weight": drawing.weight,
        "scale": drawing.scale,
    }


def elsewhere(runs: Sequence[Run], keys: Sequence[str]) -> list[dict[str, str]]:
    """Where the metrics that a page leaves out are drawn."""
    chosen = ",".join(run.id for run in runs)
    page = reverse("experiments:compare")
    return [{"name": key, "url": f"{page}?{urlencode({'runs': chosen, 'metric': key})}"} for key in keys]


def etag(runs: Sequence[Run], key: str, x: str) -> str:
    """Changes whenever `values` does, without a look at the points."""
    state = [(run.id, run.name, run.started_ms, bool(run.ended_ms)) for run in runs]
    versions = metrics.version(run.id for run in runs)
    return f'"{sha256(json.dumps([_FORMAT, key, x, state, versions]).encode()).hexdigest()[:32]}"'


def values(runs: Sequence[Run], key: str, x: str) -> dict[str, Any]:
    """The chart of static/js/chart-data.js."""
    by_step = x == "step"
    curves = metrics.bands(
        [run.id for run in runs], key, columns=MOST_COLUMNS, axis="step" if by_step else "wall"
    )
    return {
        "x": {"kind": "step" if by_step else "elapsed", "title": "step" if by_step else "time"},
        "y": {"title": key},
        "series": [_series(run, key, curves.get(run.id, Bands()), by_step) for run in runs],
        "marks": [],
    }


def _series(run: Run, key: str, bands: Bands, by_step: bool) -> dict[str, Any]:
    origin = run.started_ms or run.created_ms
    curve = _points(bands)
    thinned = {"means": curve["means"], "counts": curve["counts"]} if max(bands.count, default=1) > 1 else {}
    return {
        "name": run.name,
        "key": key,
        "subject": f"{'job' if run.job_id else 'run'}:{run.id}" if run.ended_ms is None else "",
        "origin_ms": origin,
        "x": curve["x"] if by_step else [(at_ms - origin) / 1000 for at_ms in curve["x"]],
        "y": curve["y"],
        **thinned,
    }


def _points(bands: Bands) -> dict[str, list[Any]]:
    """A point for each column with finite values, or two where its values differ: none is lost between them."""
    curve: dict[str, list[Any]] = {"x": [], "y": [], "means": [], "counts": []}
    columns = zip(
        bands.x_from, bands.x_to, bands.low, bands.high, bands.mean, bands.last, bands.count, strict=True
    )
    for x_from, x_to, low, high, mean, last, count in columns:
        if low is None or high is None or mean is None:
            continue
        pair = [(x_from, low), (x_to, high)] if x_from < x_to else [(x_to, mean if last is None else last)]
        for number, (x, y) in enumerate(pair):
            curve["x"].append(x)
            curve["y"].append(_short(y))
            curve["means"].append(_short(mean))
            curve["counts"].append((count + number) // len(pair))
    return curve


def _short(value: float) -> float:
    """As exact as a screen can show."""
    return float(f"{value:.7g}")


def sparks(runs: Sequence[Run], most: int = 40) -> dict[str, list[float]]:
    """The course of each run in a few values of the metric that the runs are judged by."""
    keys = metric_names(runs)
    key = headline(keys) or next(iter(keys), "")
    curves = metrics.bands([run.id for run in runs], key, columns=most // 2)
    return {run_id: _points(bands)["y"] for run_id, bands in curves.items()}
