"""Charts of runs for the pages: a chart names its metric, and its values are fetched when it comes into view."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.cache import get_conditional_response
from pydantic_core import to_json

from platform_core.errors import TrainmasterError
from platform_core.experiments import names
from platform_core.experiments.comparison import direction, headline
from platform_core.experiments.run_names import Named, distinct_names
from platform_core.experiments.sections import in_sections
from platform_core.experiments.styles import letters, styles
from webapp.experiments import curves
from webapp.experiments.comparison import metric_names
from webapp.experiments.curves import Axis, Curve
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics

MOST_KEYS = 12  # of one request
_TITLES = {"step": "step", "elapsed": "time", "time": "time"}


@dataclass(frozen=True, slots=True)
class Drawing:
    """How the charts of a page are drawn. `x` is what `curves.axis_of` reads."""

    x: str = "step"
    weight: float = 0.0
    scale: str = "linear"


@dataclass(frozen=True, slots=True)
class ChartSection:
    name: str
    charts: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Label:
    """How a run is named and drawn among the others: on its lines, in the list of runs and in tables."""

    name: str
    letter: str
    style: dict[str, int]

    @property
    def swatch(self) -> str:
        """Of static/css/series.css: "run-3"."""
        return f"run-{self.style['colour'] + 1}"


def of_runs(runs: Sequence[Run], keys: Sequence[str], drawing: Drawing | None = None) -> list[dict[str, Any]]:
    """One chart for each metric, with the address of its values."""
    chosen = drawing or Drawing()
    address = address_of(runs, chosen.x)
    return [
        {
            **chart(key),
            "url": f"{address}&{urlencode({'key': key})}",
            "weight": chosen.weight,
            "scale": chosen.scale,
        }
        for key in keys
    ]


def sections(keys: Sequence[str], order: Sequence[str] = ()) -> list[ChartSection]:
    """Every metric, in sections by prefix, first those in `order`; the charts take their address from the data-curves
    around them."""
    places = {key: place for place, key in enumerate(order)}
    return [
        ChartSection(
            section.name,
            [chart(key) for key in sorted(section.keys, key=lambda key: places.get(key, len(places)))],
        )
        for section in in_sections(keys)
    ]


def chart(key: str) -> dict[str, Any]:
    better = direction(key)
    return {
        "id": f"chart-{crc32(key.encode()):08x}",
        "key": key,
        "title": key.replace("_", " "),
        "note": "lower is better" if better < 0 else "higher is better" if better > 0 else "",
    }


def address_of(runs: Sequence[Run], x: str = "step", **more: str) -> str:
    """Of the values of these runs; a chart adds its key."""
    query = urlencode({"runs": ",".join(run.id for run in runs), "x": x, **more})
    return f"{reverse('experiments:curves')}?{query}"


def comparison_of(runs: Sequence[Run]) -> str:
    """The page that draws all metrics of these runs."""
    return (
        f"{reverse('experiments:compare')}?{urlencode({'runs': ','.join(run.id for run in runs)}, safe=',')}"
    )


def answer(request: HttpRequest, runs: Sequence[Run]) -> HttpResponse:
    """The values of the charts asked for. A browser that has them already learns so before a point is read."""
    query = request.GET
    keys, axis = list(dict.fromkeys(query.getlist("key"))), curves.axis_of(query.get("x", ""))
    window = curves.window_of(query)
    columns = curves.columns_of(query.get("columns", ""), len(runs))
    together = query.get("group") == "seeds"
    known = set(metrics.keys(run.id for run in runs))
    unknown = [key for key in keys if key not in known]
    if unknown or not keys:
        raise TrainmasterError("not_found", what=f"metric {next(iter(unknown), '')[:100]} of these runs")
    if len(keys) > MOST_KEYS:
        why = f"{len(keys)} metrics in one request; the limit is {MOST_KEYS}"
        raise TrainmasterError("request_invalid", what="key", why=why)
    tag = curves.etag(runs, [keys, axis.kind, axis.key, columns, window, together])
    response = get_conditional_response(request, etag=tag)
    if response is None:
        groups = curves.seed_groups(runs) if together else None
        charts = _charts(runs, keys, axis, columns, window, groups)
        body = to_json({"charts": [_shared(chart) for chart in charts]}, inf_nan_mode="null")
        response = HttpResponse(body, content_type="application/json")
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    return response


def values(runs: Sequence[Run], key: str, x: str) -> dict[str, Any]:
    """One chart of static/js/chart-data.js."""
    [chart] = _charts(runs, [key], curves.axis_of(x), curves.columns_of("", len(runs)))
    return chart


def _charts(
    runs: Sequence[Run],
    keys: Sequence[str],
    axis: Axis,
    columns: int,
    window: curves.Window | None = None,
    groups: Sequence[tuple[Run, ...]] | None = None,
) -> list[dict[str, Any]]:
    if axis.kind == "step" and (sampled := [key for key in keys if names.is_system(key)]):
        # The steps of what is sampled are seconds of the wall clock.
        others = [key for key in keys if key not in sampled]
        drawn = _charts(runs, sampled, curves.axis_of("relative"), columns, window, groups)
        return drawn + (_charts(runs, others, axis, columns, window, groups) if others else [])
    labels = labels_of(runs)
    lines = curves.curves_of_keys(runs, keys, axis, columns, window)
    if groups is not None:
        lines = {key: curves.grouped(of_key, groups, columns) for key, of_key in lines.items()}
    return [
        {
            "key": key,
            "x": {"kind": axis.kind, "title": axis.key or _TITLES[axis.kind], "key": axis.key},
            "y": {"title": key, **({"unit": unit} if (unit := names.unit_of(key)) else {})},
            "series": [_series(line, key, labels) for line in lines[key]],
            "marks": [],
        }
        for key in keys
    ]


def _shared(chart: dict[str, Any]) -> dict[str, Any]:
    """Runs that report at the same steps have the same columns: these are sent once, then as the number of their
    series."""
    series = [dict(line) for line in chart["series"]]
    for name in ("x", "counts"):
        first: dict[tuple[float, ...], int] = {}
        for number, line in enumerate(series):
            if line.get(name):
                same = first.setdefault(tuple(line[name]), number)
                line[name] = line[name] if same == number else same
    return {**chart, "series": series}


def labels_of(runs: Sequence[Run]) -> dict[str, Label]:
    distinct = distinct_names([Named(run.id, run.name, run.parameters) for run in runs])
    looks = styles([run.id for run in runs])
    ends = letters(len(runs)) if len(runs) != 1 else [""]
    return {
        run.id: Label(
            distinct[run.id],
            letter,
            {"colour": looks[run.id].colour, "dash": looks[run.id].dash, "marker": looks[run.id].marker},
        )
        for run, letter in zip(runs, ends, strict=True)
    }


def group_label(group: Sequence[Run], labels: dict[str, Label]) -> Label:
    """Of runs that are drawn as one: the look of the first."""
    first = labels[group[0].id]
    if len(group) == 1:
        return first
    return replace(first, name=f"{group[0].name} · {len(group)} seeds")


def _series(curve: Curve, key: str, labels: dict[str, Label]) -> dict[str, Any]:
    run = curve.runs[0]
    label = group_label(curve.runs, labels)
    thinned = len(curve.runs) > 1 or any(count > 1 for count in curve.counts)
    return {
        "name": label.name,
        "letter": label.letter,
        "style": label.style,
        "key": key,
        "run": run.id,
        "band": len(curve.runs) > 1,
        "subject": subject_of(run) if run.ended_ms is None else "",
        "origin_ms": curves.origin_ms(run),
        "x": curve.x,
        "y": curve.y,
        **({"low": curve.low, "high": curve.high, "counts": curve.counts} if thinned else {}),
        **({"last": curve.last} if thinned and curve.last is not None else {}),
        **({"gaps": curve.gaps} if curve.gaps else {}),
    }


def subject_of(run: Run) -> str:
    """Of the live socket."""
    return f"{'job' if run.job_id else 'run'}:{run.id}"


def sparks(runs: Sequence[Run], most: int = 40) -> dict[str, list[float]]:
    """The course of each run in a few values of the metric that the runs are judged by."""
    keys = metric_names(runs)
    key = headline(keys) or next(iter(keys), "")
    return {line.runs[0].id: line.y for line in curves.curves(runs, key, Axis(), most) if line.y}
