"""Predicted against measured: what the planner said of jobs, what their ranks measured, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.parallelism.calibration import ENOUGH, Calibration, apart
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.experiments import predictions
from webapp.experiments.models import Prediction
from webapp.experiments.predictions import Learnt
from webapp.pages import fragments

_AROUND = 2  # times beyond the first and the last job: four times in all have a tick of 1, 2 and 5


@dataclass(frozen=True, slots=True)
class Row:
    kept: Prediction
    predicted_ms: int  # calibrated
    measured_ms: int
    error: float  # predicted over measured, less 1
    within: bool

    @property
    def error_shown(self) -> str:
        return apart(1 + self.error)


@dataclass(frozen=True, slots=True)
class MeasuredPage:
    """Query: gpu_type; without it the type with the newest job."""

    kinds: Sequence[str]
    chosen: str
    learnt: Learnt | None
    headline: str
    needed_steps: int
    rows: Sequence[Row]
    within: int
    chart: dict[str, Any] | None


@login_required
@require_GET
def measured(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "cluster.view")
    known = {each.gpu_type: each for each in predictions.learnt()}
    newest = predictions.compared(actor.sees)
    asked = request.GET.get("gpu_type", "")
    chosen = asked if asked in known else newest[0].gpu_type if newest else next(iter(known), "")
    learnt = known.get(chosen)
    step = learnt.step if learnt else Calibration()
    rows = [_row(kept, step) for kept in predictions.compared(actor.sees, chosen)] if chosen else []
    page = MeasuredPage(
        kinds=list(known),
        chosen=chosen,
        learnt=learnt,
        headline=_headline(chosen, step),
        needed_steps=predictions.STEPS,
        rows=rows,
        within=sum(row.within for row in rows),
        chart=_chart(rows, step) if rows else None,
    )
    return fragments.render(request, "planner/measured.html", page)


def _headline(kind: str, step: Calibration) -> str:
    if not kind:
        return "No job has been compared yet"
    if not step.is_learnt:
        return f"{kind}: {step.rows} of {ENOUGH} jobs measured, plans are not calibrated yet"
    slower = round(100 * (step.factor - 1))
    if not slower:
        return f"{kind}: steps take as long as the formulas say"
    return f"{kind}: steps take {abs(slower)} % {'longer' if slower > 0 else 'less'} than the formulas say"


def _row(kept: Prediction, step: Calibration) -> Row:
    seconds = kept.predicted_seconds * step.factor
    ratio = kept.measured_seconds / seconds
    within = step.low <= ratio <= step.high
    return Row(kept, round(1000 * seconds), round(1000 * kept.measured_seconds), 1 / ratio - 1, within)


def _chart(rows: Sequence[Row], step: Calibration) -> dict[str, Any]:
    """Measured over predicted seconds, both logarithmic; the lines are equality and the ends of the band."""
    ordered = sorted(rows, key=lambda row: row.predicted_ms)
    predicted = [max(1, row.predicted_ms) / 1000 for row in ordered]
    ends = [predicted[0] / _AROUND, predicted[-1] * _AROUND]
    lines = (("as predicted", 1.0, "solid"), ("band, low", step.low, "dot"), ("band, high", step.high, "dot"))
    measured = [max(1, row.measured_ms) / 1000 for row in rows]
    ticks = _ticks(min(*ends, *measured) / 2, 2 * max(*ends, *measured))
    jobs = {
        "name": "measured", "key": "measured", "subject": "", "x": predicted,
        "y": [max(1, row.measured_ms) / 1000 for row in ordered], "came": [_came(row) for row in ordered],
    }  # fmt: skip
    joined = [
        {
            "name": name, "label": name.removesuffix(", low") if "high" not in name else "", "key": name,
            "subject": "", "x": ends, "y": [end * factor for end in ends], "joined": dash,
        }
        for name, factor, dash in lines
    ]  # fmt: skip
    return {
        "x": {
            "kind": "value",
            "title": "predicted step in s",
            "key": "predicted",
            "log": True,
            "ticks": ticks,
        },
        "y": {"title": "measured step in s", "log": True, "ticks": ticks},
        "series": [jobs, *joined],
        "marks": [],
        "points": True,
    }


def _ticks(low: float, high: float) -> list[float]:
    """One, two and five of each decade."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    values = [round(digit * 10.0**decade, 9) for decade in decades for digit in (1, 2, 5)]
    return [value for value in values if low <= value <= high]


def _came(row: Row) -> str:
    if row.within:
        return "held"
    return "later" if row.error < 0 else "earlier"
