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
from webapp.experiments import metric_store
from webapp.experiments.comparison import metric_names
from webapp.experiments.metric_store import Curve
from webapp.experiments.models import Run

MOST_POINTS = 600
MOST_CHARTS = 24
_FORMAT = 1  # of the values; a browser may keep those of an older release


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
    state = [(run.id, run.name, run.ingested, run.started_ms, bool(run.ended_ms)) for run in runs]
    return f'"{sha256(json.dumps([_FORMAT, key, x, state]).encode()).hexdigest()[:32]}"'


def values(runs: Sequence[Run], key: str, x: str) -> dict[str, Any]:
    """The chart of static/js/chart-data.js."""
    by_step = x == "step"
    curves = metric_store.sampled([run.id for run in runs], key, MOST_POINTS, "step" if by_step else "at_ms")
    return {
        "x": {"kind": "step" if by_step else "elapsed", "title": "step" if by_step else "time"},
        "y": {"title": key},
        "series": [_series(run, key, curves.get(run.id, Curve()), by_step) for run in runs],
        "marks": [],
    }


def _series(run: Run, key: str, curve: Curve, by_step: bool) -> dict[str, Any]:
    origin = run.started_ms or run.created_ms
    thinned = (
        {"means": _short(curve.means), "counts": curve.counts} if max(curve.counts, default=1) > 1 else {}
    )
    return {
        "name": run.name,
        "key": key,
        "subject": f"{'job' if run.job_id else 'run'}:{run.id}" if run.ended_ms is None else "",
        "origin_ms": origin,
        "x": curve.x if by_step else [(at_ms - origin) / 1000 for at_ms in curve.x],
        "y": _short(curve.values),
        **thinned,
    }


def _short(values: Sequence[float]) -> list[float]:
    """As exact as a screen can show."""
    return [float(f"{value:.7g}") for value in values]


def sparks(runs: Sequence[Run], most: int = 40) -> dict[str, list[float]]:
    """The course of each run in a few values of the metric that the runs are judged by."""
    keys = metric_names(runs)
    key = headline(keys) or next(iter(keys), "")
    curves = metric_store.sampled([run.id for run in runs], key, most)
    return {run_id: curve.values for run_id, curve in curves.items()}
