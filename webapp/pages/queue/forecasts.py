"""How good the forecasts were: the starts that jobs were first told beside those that came."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.scheduling.forecast.calibration import (
    TOLERANCE_MS,
    Calibration,
    Came,
    Start,
    by_horizon,
    calibration,
)
from platform_core.units import MINUTE_MS, format_duration_ms, plural
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.pages import fragments
from webapp.scheduling import queries

FEW = 10  # starts of which a percentage would say more than is known
MISSES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ForecastsPage:
    answer: dict[str, str]  # tone, headline, detail
    judged: int  # starts that are looked at, at most
    tolerance_ms: int
    chart: dict[str, Any] | None  # JSON of static/js/chart-data.js
    horizons: list[dict[str, Any]]  # label, starts, within, before, after, miss, width
    misses: list[dict[str, Any]]  # the worst first; id is "" for another team's job


@login_required
@require_safe
def forecasts(request: HttpRequest) -> HttpResponse:
    judged = queries.judged()
    starts = list(judged.values())
    overdue = queries.overdue(jobs.in_queue_order(jobs.visible(None)), now_ms())
    page = ForecastsPage(
        answer=_answer(calibration(starts), overdue),
        judged=queries.JUDGED,
        tolerance_ms=TOLERANCE_MS,
        chart=_chart(starts) if starts else None,
        horizons=[_line(reach.value, told) for reach, told in by_horizon(starts).items()],
        misses=_misses(judged, actor_of(request)),
    )
    return fragments.render(request, "queue/forecasts.html", page)


def share(part: int, whole: int) -> str:
    if not whole:
        return "–"
    return f"{100 * part / whole:.0f} %" if whole >= FEW else f"{part} of {whole}"


def _answer(judged: Calibration, overdue: int) -> dict[str, str]:
    late = ""
    if overdue:
        wait = "1 pending job has" if overdue == 1 else f"{overdue} pending jobs have"
        late = f"{wait} already waited longer than predicted and will count as later."
    if not judged.starts:
        headline = "No forecast to judge yet"
        detail = "A pending job gets a forecast of its start. Once it has started, both are compared here."
        return {"tone": "wait" if late else "off", "headline": headline, "detail": f"{detail} {late}".strip()}
    headline = f"{judged.within} of {plural(judged.starts, 'start')} came within the predicted interval"
    misses = [f"{judged.before} came earlier, {judged.after} later"] if judged.within < judged.starts else []
    misses += [f"median miss {format_duration_ms(judged.median_miss_ms)}"] if misses else []
    few = f"{plural(judged.starts, 'start')} are too few to judge." if judged.starts > 1 else ""
    few = few or "One start is too few to judge."
    sentences = ["; ".join(misses) + "." if misses else "", few if judged.starts < FEW else "", late]
    return {
        "tone": "wait" if late else "run",
        "headline": headline,
        "detail": " ".join(filter(None, sentences)),
    }


def _line(label: str, calibration: Calibration) -> dict[str, Any]:
    width = calibration.median_width_ms
    return {
        "label": label,
        "starts": calibration.starts,
        "within": share(calibration.within, calibration.starts),
        "before": share(calibration.before, calibration.starts),
        "after": share(calibration.after, calibration.starts),
        "miss": format_duration_ms(calibration.median_miss_ms)
        if calibration.within < calibration.starts
        else "–",
        "width": "–" if width is None else "a moment" if width < MINUTE_MS else format_duration_ms(width),
    }


def _misses(judged: Mapping[str, Start], actor: Actor) -> list[dict[str, Any]]:
    """The worst first."""
    missed = [(job, start) for job, start in judged.items() if start.came is not Came.HELD]
    worst = sorted(missed, key=lambda each: (-abs(each[1].miss_ms), each[0]))[:MISSES_SHOWN]
    rows = {row.id: row for row in jobs.visible(None).filter(id__in=[job for job, _ in worst])}
    return [
        {
            **_whose(job, rows, actor),
            "told": queries.in_words(start.early_ms, start.late_ms, start.told_ms),
            "waited_ms": start.started_ms - start.told_ms,
            "came": start.came.value,
            "miss_ms": abs(start.miss_ms),
            "at_ms": start.started_ms,
        }
        for job, start in worst
    ]


def _whose(job_id: str, rows: Mapping[str, Any], actor: Actor) -> dict[str, str]:
    """Names are told to those who may see them."""
    row = rows.get(job_id)
    if row is None or not may(actor, "job.view", row.team_id):
        return {"id": "", "name": f"a job of {row.team_id}" if row else "a job that is gone"}
    return {"id": job_id, "name": row.name}


def _chart(starts: Sequence[Start]) -> dict[str, Any]:
    """From the nearest told to the farthest, so that one sees from where on the forecasts fail."""
    ordered = sorted(
        starts,
        key=lambda each: (
            each.late_ms is None,
            (each.late_ms or 0) - each.told_ms,
            each.early_ms - each.told_ms,
        ),
    )
    early = [_seconds(each.early_ms - each.told_ms) for each in ordered]
    late = [None if each.late_ms is None else _seconds(each.late_ms - each.told_ms) for each in ordered]
    waited = [_seconds(each.started_ms - each.told_ms) for each in ordered]
    numbers = list(range(1, len(ordered) + 1))
    return {
        "x": {"kind": "step", "title": "start"}, "y": {"title": "wait", "unit": "wait", "log": True},
        "points": True, "smooth": 0, "marks": [],
        "series": [
            {"name": "forecast, earliest", "label": "", "key": "early", "subject": "", "x": numbers, "y": early},
            {
                "name": "forecast, latest", "label": "forecast, earliest to latest", "key": "late", "subject": "",
                "x": numbers, "y": late, "low": early,
            },
            {
                "name": "actual wait", "key": "waited", "subject": "", "x": numbers, "y": waited,
                "came": [each.came.value for each in ordered],
            },
        ],
    }  # fmt: skip


def _seconds(ms: int) -> float:
    """At least one: the axis is logarithmic, and nothing is told more exactly."""
    return max(1.0, ms / 1000)
