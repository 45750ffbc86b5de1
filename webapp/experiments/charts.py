"""Curves as the pages take them: at most a thousand points a series, smoothed here, raw values behind."""

from collections.abc import Sequence
from typing import Any

from platform_core.experiments.comparison import direction
from platform_core.experiments.series import downsample, smooth
from webapp.experiments import metric_store
from webapp.experiments.models import Run

MOST_POINTS = 1000
MOST_CHARTS = 12
_FIRST = ("loss", "train_loss", "heldout_bits_per_byte", "heldout_loss", "val_loss", "accuracy", "lr")


def in_order(keys: Sequence[str]) -> list[str]:
    """What people look at first comes first."""
    return sorted(keys, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))


def of_run(run: Run) -> list[dict[str, Any]]:
    """One chart for each metric of one run, growing live."""
    return [chart([run], key, live=True) for key in in_order(metric_store.keys([run.id]))[:MOST_CHARTS]]


def chart(
    runs: Sequence[Run],
    key: str,
    *,
    x: str = "step",
    weight: float = 0.0,
    scale: str = "linear",
    live: bool = False,
) -> dict[str, Any]:
    """One metric of some runs. `x` is "step" or "time" (since each run began)."""
    series = [_series(run, key, x, weight, live) for run in runs]
    newest = [one["raw"][-1] for one in series if one["raw"]]
    return {
        "id": "chart-" + "".join(c if c.isalnum() else "-" for c in key),
        "title": key.replace("_", " "),
        "note": "lower is better" if direction(key) < 0 else "",
        "low": False,
        "newest": newest[0] if newest else None,
        "data": {
            "x": {"kind": "step" if x == "step" else "elapsed", "title": "step" if x == "step" else "time"},
            "y": {"title": key, "log": scale == "log"},
            "smooth": weight,
            "series": series,
            "marks": [],
        },
    }


def _series(run: Run, key: str, x: str, weight: float, live: bool) -> dict[str, Any]:
    points = metric_store.series(run.id, key)
    origin = run.job.started_ms or run.created_ms
    places = [
        (float(step) if x == "step" else (at_ms - origin) / 1000, value) for step, value, at_ms in points
    ]
    smoothed = smooth([value for _, value in places], weight)
    shown = downsample(
        [(place, value) for (place, _), value in zip(places, smoothed, strict=True)], MOST_POINTS
    )
    raw = downsample(places, MOST_POINTS) if weight else shown
    return {
        "name": run.job.name,
        "key": key,
        "subject": f"job:{run.id}" if live or run.job.finished_ms is None else "",
        "origin_ms": origin,
        "x": [place for place, _ in shown],
        "y": [value for _, value in shown],
        "raw": [value for _, value in raw]
        if weight and len(raw) == len(shown)
        else [value for _, value in shown],
    }


def sparks(runs: Sequence[Run], key: str = "loss", most: int = 40) -> dict[str, list[float]]:
    """The course of each run in a few values."""
    found = metric_store.curves([run.id for run in runs], key)
    return {
        run_id: [value for _, value in downsample([(float(step), value) for step, value in points], most)]
        for run_id, points in found.items()
    }
