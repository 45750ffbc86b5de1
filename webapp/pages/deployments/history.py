"""Deployments that have ended, and what they cost: read for the history page, and drawn."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from platform_core.distribution.deployments.deployment import TERMINAL, DeploymentState
from platform_core.distribution.deployments.history import Record, summarise
from platform_core.units import format_bytes, plural
from webapp.deployments.models import Deployment
from webapp.events import queries as events

DAY_MS = 24 * 3_600_000
PERIODS = (7, 30, 90, 365)  # days
MOST = 1000  # deployments in one picture: the newest
SPREAD = 5  # of the highest over the lowest, from which a picture is drawn on a logarithmic scale
FEW = "A curve needs two deployments of a model."
LINES = 5  # of a chart: the models that are deployed most


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to see; empty means all of it."""

    team: str = ""
    model: str = ""  # team/name
    days: int = 30


def models(teams: Iterable[str] | None) -> list[str]:
    """Those of which a deployment has ended, as team/name."""
    rows = (
        _visible(teams)
        .filter(finished_ms__isnull=False)
        .order_by()
        .values_list("model_version__model__team", "model_version__model__name")
    )
    return sorted(f"{team}/{name}" for team, name in rows.distinct())


def records(teams: Iterable[str] | None, question: Question, now_ms: int) -> list[Record]:
    """The oldest first."""
    rows = _visible(teams).filter(state__in=list(TERMINAL), finished_ms__gte=now_ms - question.days * DAY_MS)
    if question.team:
        rows = rows.filter(team=question.team)
    if question.model:
        team, _, name = question.model.partition("/")
        rows = rows.filter(model_version__model__team=team, model_version__model__name=name)
    candidates = (
        rows.select_related("model_version__model", "model_version__manifest")
        .defer("model_version__manifest__document", "pacing")
        .order_by("-finished_ms")[:MOST]
    )
    newest_first = list(candidates)
    failures = events.happened("WorkerFailed", "deployment", [row.id for row in newest_first])
    return [_record(row, failures.get(row.id, 0)) for row in reversed(newest_first)]


def _visible(teams: Iterable[str] | None) -> QuerySet[Deployment]:
    return Deployment.objects.all() if teams is None else Deployment.objects.filter(team__in=list(teams))


def _record(row: Deployment, failures: int) -> Record:
    manifest = row.model_version.manifest
    assert row.finished_ms is not None, "it has ended"
    return Record(
        id=row.id,
        model=str(row.model_version.model),
        state=DeploymentState(row.state),
        began_ms=row.started_ms or row.created_ms,
        ended_ms=row.finished_ms,
        bound_ms=row.bound_ms,
        bytes=manifest.total_bytes if manifest else 0,
        nodes=sum(row.node_states.values()),
        store_bytes=row.store_bytes,
        retries=row.retries,
        refused_bytes=row.refused_bytes,
        failures=failures,
        version=row.model_version.version,
    )


# -- as the page shows it


def kpis(records: Sequence[Record]) -> list[dict[str, str]]:
    summary = summarise("", records)
    refused = format_bytes(summary.refused_bytes) if summary.refused_bytes else "none"
    return [
        {"label": "Deployments", "value": str(summary.deployments), "note": f"{summary.complete} complete"},
        {
            "label": "Slowdown",
            "value": _times(summary.median_ratio),
            "note": f"median, in times of the theoretical minimum; the worst {_times(summary.worst_ratio)}"
            if summary.worst_ratio is not None
            else "none is complete and large enough to be judged",
        },
        {
            "label": "Read from the store",
            "value": "–" if summary.median_copies is None else f"{summary.median_copies:.2f}",
            "note": "copies, median",
        },
        {
            "label": "Failures of nodes",
            "value": str(summary.failures),
            "note": f"{plural(summary.failed, 'deployment')} failed",
        },
        {"label": "Damaged bytes", "value": refused, "note": "refused, and fetched elsewhere"},
    ]


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f} ×" if ratio < 100 else f"{ratio:,.0f} ×"


def charts(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Over time, a line for each of the models that are deployed most."""
    by_model: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_model[record.model].append(record)
    names = sorted(by_model, key=lambda name: (-len(by_model[name]), name))[:LINES]
    lines = {name: by_model[name] for name in names}
    return [
        {
            "id": "over-the-bound",
            "title": "Slowdown, in times of the theoretical minimum",
            "none": f"{FEW} One with a theoretical minimum under a second is not counted.",
            "chart": _chart(
                lines, "times the theoretical minimum", lambda record: record.ratio, spread=SPREAD
            ),
        },
        {
            "id": "copies",
            "title": "Copies read from the store",
            "none": FEW,
            "chart": _chart(lines, "copies of the model", lambda record: record.copies),
        },
        {
            "id": "failures",
            "title": "Failures of nodes",
            "none": FEW,
            "chart": _chart(lines, "failures", lambda record: record.failures),
        },
    ]


def _chart(lines: dict[str, list[Record]], title: str, value: Any, spread: int = 0) -> dict[str, Any]:
    """`spread`: of the highest over the lowest, from which the scale is logarithmic; 0 is never."""
    series: list[dict[str, Any]] = []
    for name, of_it in lines.items():
        points = [(record.ended_ms, value(record)) for record in of_it if value(record) is not None]
        if len(points) > 1:
            xs, ys = [at for at, _ in points], [round(y, 4) for _, y in points]
            series.append({"name": name, "key": name, "x": xs, "y": ys})
    highest = max((max(line["y"]) for line in series), default=0)
    scale = {"log": True} if 0 < spread * _lowest(series) < highest else {"min": 0}
    return {
        "x": {"kind": "time", "title": "time"},
        "y": {"title": title, **scale},
        "series": series,
        "marks": [],
    }


def _lowest(series: Sequence[dict[str, Any]]) -> float:
    return min((min(line["y"]) for line in series), default=0.0)


def lines(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The newest first."""
    return [
        {
            "id": record.id, "model": record.model, "version": record.version, "state": record.state,
            "ended_ms": record.ended_ms, "took_ms": record.took_ms, "bound_ms": record.bound_ms,
            "ratio": record.ratio, "copies": record.copies, "nodes": record.nodes,
            "failures": record.failures, "bytes": record.bytes,
        }
        for record in reversed(records)
    ]  # fmt: skip
