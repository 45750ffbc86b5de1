"""The parallelism planner as a page: the question in the address, the ranked layouts below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from platform_core.jobs.fields import Field, leaves
from platform_core.jobs.reader import SpecError
from platform_core.parallelism.advice import Advice, Ranked, ScalePoint, advise
from platform_core.parallelism.hardware import GPUS
from platform_core.parallelism.request import PlanRequest, parse
from platform_core.units import format_bytes
from webapp.experiments import predictions
from webapp.experiments.scaling import ScalingCurve, scaling
from webapp.pages import fragments
from webapp.pages.planner.models import FIRST, PRESETS
from webapp.pages.planner.versus import Versus, detail, versus
from webapp.quotas import queries as quotas

FIELDS: Mapping[str, Field] = {field.name: field for field in leaves(PlanRequest)}
_WIDTH = 1_000  # of a bar, in the units of its picture


# Powers of two that a slider runs over; the number beside it takes any.
_SLIDERS = {
    "gpus": (0, 14),
    "global_batch": (0, 14),
    "sequence": (8, 20),
    "network_gbit": (3, 13),
    "tokens_billions": (0, 14),
}


@dataclass(frozen=True, slots=True)
class Slider:
    low: int
    high: int
    at: int


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    label: str
    help: str
    kind: str  # number, select or check
    value: str
    options: Sequence[str]
    problem: str
    slider: Slider | None


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a bar."""

    name: str
    shown: str
    at: int
    width: int


@dataclass(frozen=True, slots=True)
class Row:
    ranked: Ranked
    detail: str  # what tells it from others of the same title
    step: Sequence[Part]
    memory: Sequence[Part]

    @property
    def name(self) -> str:
        return f"{self.ranked.title}, {self.detail}"


@dataclass(frozen=True, slots=True)
class Scaling:
    points: Sequence[ScalePoint]
    left: int  # to be planned by the next request
    chart: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlannerPage:
    """Fragments: scaling, and versus with the places of two plans as left and right."""

    fragment: str

    inputs: Mapping[str, Sequence[Input]]  # by section
    presets: Mapping[str, str]  # name → query
    problems: Sequence[str]
    advice: Advice | None
    parameters: str
    rows: Sequence[Row]
    query: str
    has_run: bool
    measured_url: str
    versus: Versus | None
    scaling: Callable[[], Scaling]


@login_required
@require_GET
def planner(request: HttpRequest) -> HttpResponse:
    given = {name: text for name, text in request.GET.dict().items() if name in FIELDS}
    if not any(name.startswith("model.") for name in given):
        given = _query_of(FIRST) | given
    problems: dict[str, str] = {}
    fragment = request.GET.get("block", "") if request.headers.get("HX-Request") else ""
    asked = advice = None
    try:
        asked = parse(_mapping(given), {name: f"“{field.label}”" for name, field in FIELDS.items()})
        learnt = predictions.calibration(asked.gpu_type)
        if fragment != "scaling":
            advice = advise(asked, quotas.price(asked.gpu_type), learnt)
    except SpecError as error:
        problems = {problem.field: problem.sentence for problem in error.problems}
    page = PlannerPage(
        fragment=fragment,
        inputs=_inputs(given, problems),
        presets={name: urlencode({**given, **_query_of(name)}) for name in PRESETS},
        problems=list(problems.values()),
        advice=advice,
        parameters=f"{advice.parameters / 1e9:.1f} billion" if advice else "",
        rows=[_row(ranked, advice.plans) for ranked in advice.plans] if advice else [],
        query=urlencode(given),
        has_run=bool(asked and asked.tokens),
        measured_url=f"{reverse('planner:measured')}?{urlencode({'gpu_type': asked.gpu_type})}"
        if asked
        else "",
        versus=versus(advice.plans, request.GET.dict()) if advice and len(advice.plans) > 1 else None,
        scaling=lambda: _scaling(scaling(asked, learnt) if asked else ScalingCurve((), 0)),
    )
    return fragments.render(request, "planner/planner.html", page, status=422 if problems else 200)


def _query_of(preset: str) -> dict[str, str]:
    """All fields of the model, so that a preset replaces the numbers of the one before it."""
    chosen = PRESETS[preset]
    model = {
        name.removeprefix("model."): field for name, field in FIELDS.items() if name.startswith("model.")
    }
    return {f"model.{name}": _text(chosen.get(name, field.plain_default)) for name, field in model.items()}


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _mapping(given: Mapping[str, str]) -> dict[str, Any]:
    mapping: dict[str, Any] = {"model": {}}
    for name, text in given.items():
        if text.strip():
            parent, _, inside = name.rpartition(".")
            (mapping[parent] if parent else mapping)[inside] = _value(FIELDS[name], text.strip())
    return mapping


def _value(field: Field, text: str) -> Any:
    """A number or a truth if it is one; otherwise the text, which the core then refuses with its sentence."""
    if field.kind.schema.get("type") == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    for convert in (int, float) if field.kind.schema.get("type") in ("integer", "number") else ():
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _inputs(given: Mapping[str, str], problems: Mapping[str, str]) -> dict[str, list[Input]]:
    sections: dict[str, list[Input]] = {}
    for name, field in FIELDS.items():
        options = list(GPUS) if name == "gpu_type" else list(field.kind.schema.get("enum", ()))
        kind = "select" if options else "check" if field.kind.schema.get("type") == "boolean" else "number"
        value = given.get(name, _text(field.plain_default))
        sections.setdefault(field.group.value, []).append(
            Input(
                name,
                field.label,
                field.help,
                kind,
                value,
                options,
                problems.get(name, ""),
                _slider(name, value),
            )
        )
    return sections


def _slider(name: str, value: str) -> Slider | None:
    if name not in _SLIDERS:
        return None
    low, high = _SLIDERS[name]
    number = float(value) if value.replace(".", "", 1).isdigit() and len(value) < 16 else 0.0
    return Slider(low, high, min(high, max(low, round(log2(number)))) if number > 0 else low)


def _scaling(curve: ScalingCurve) -> Scaling:
    """Tokens a second over GPUs, both logarithmic, beside a straight line through the best efficiency."""
    points = curve.points
    gpus = [point.gpus for point in points]
    straight = max((point.tokens_per_second / point.gpus for point in points), default=0.0)
    lines = (
        ("fastest layout", [point.tokens_per_second for point in points]),
        ("without any loss", [round(straight * count) for count in gpus]),
    )
    series = [{"name": name, "key": name, "subject": "", "x": gpus, "y": values} for name, values in lines]
    return Scaling(
        points,
        curve.left,
        {
            "x": {"kind": "value", "title": "GPUs", "key": "gpus", "log": True, "ticks": gpus},
            "y": {"title": "tokens/s", "log": True, "ticks": [10**power for power in range(1, 10)]},
            "series": series,
            "marks": [],
        },
    )


def _row(ranked: Ranked, plans: Sequence[Ranked]) -> Row:
    slowest = max(other.plan.step.total for other in plans)
    fullest = max(other.plan.memory.total for other in plans)
    step = [(name, seconds, f"{1_000 * seconds:,.0f} ms") for name, seconds in ranked.plan.step.parts]
    memory = [(name, size, format_bytes(size)) for name, size in asdict(ranked.plan.memory).items()]
    return Row(ranked, detail(ranked), _parts(step, slowest), _parts(memory, fullest))


def _parts(values: Sequence[tuple[str, float, str]], whole: float) -> list[Part]:
    parts: list[Part] = []
    at = 0
    for name, amount, shown in values:
        width = round(_WIDTH * amount / whole)
        if width:
            parts.append(Part(name, shown, at, width))
            at += width
    return parts
