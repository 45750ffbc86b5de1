"""The page of serving targets: what each requires of exports, and the forms that set and delete one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from platform_core.registry.exports import Dtype, Format
from platform_core.units import format_bytes, parse_bytes
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.pages import fragments
from webapp.pages.registry.exports import TargetRow, target_row
from webapp.quotas import queries as quotas
from webapp.registry import exports
from webapp.registry.models import ServingTarget

MEMORY = "max_memory_bytes"
READ: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "max_latency_ms": (float, "a number"),
    "max_difference": (float, "a number"),
    "max_opset": (int, "a whole number"),
    MEMORY: (parse_bytes, "a size, such as 2GiB"),
}
FIELDS = {MEMORY: "max_memory"}  # those that the form names otherwise, for it takes a unit
LABELS = {  # of the form, for what REST calls otherwise
    "max_latency_ms": "Maximum latency", MEMORY: "Maximum memory", "max_difference": "Maximum difference",
    "max_opset": "Maximum opset", "gpu_type": "GPU type",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TargetLine:
    team: str
    shown: TargetRow
    changed_ms: int
    may_set: bool


@dataclass(frozen=True, slots=True)
class TargetsPage:
    targets: tuple[TargetLine, ...]
    teams: tuple[str, ...]  # whose targets the reader may set
    dtypes: tuple[str, ...]
    gpu_types: tuple[str, ...]  # of the cluster, to choose from
    formats: tuple[str, ...]
    chosen: tuple[str, ...]  # formats of the form
    values: Mapping[str, Any]
    problems: Mapping[str, str]


@login_required
@require_GET
def target_list(request: HttpRequest) -> HttpResponse:
    """With `team` and `name` in the address the form has what that target requires now."""
    return _list(request, *_current(request))


@login_required
@require_POST
def set_target(request: HttpRequest) -> HttpResponse:
    given = request.POST
    team, name = given.get("team", ""), given.get("name", "").strip()
    try:
        row = exports.set_target(actor_of(request), team, name, dict(_fields(given)))
    except TrainmasterError as error:
        if error.code != "request_invalid":
            raise
        field = str(error.numbers.get("field", ""))
        problems = {FIELDS.get(field, field): _in_the_words_of_the_form(error, field)}
        return _list(request, given.dict(), tuple(given.getlist("formats")), problems)
    messages.success(request, f"Serving target {row} requires: {target_row(row).constraints}.")
    return redirect("registry:targets")


@login_required
@require_POST
def delete_target(request: HttpRequest, team: str, name: str) -> HttpResponse:
    try:
        exports.delete_target(actor_of(request), team, name)
    except TrainmasterError as error:
        if error.code != "serving_target_in_use":
            raise
        return _list(request, {}, (), {"": error.sentence}, status=409)
    messages.success(request, f"Serving target {team}/{name} is deleted.")
    return redirect("registry:targets")


def _in_the_words_of_the_form(error: TrainmasterError, field: str) -> str:
    what, why = (str(error.numbers.get(name, "")) for name in ("what", "why"))
    what = what.replace(field, LABELS.get(field, field), 1)
    return TrainmasterError(error.code, what=what, why=why).sentence


def _fields(given: QueryDict) -> Iterator[tuple[str, Any]]:
    """Of the form, as REST takes them. Raises request_invalid with the field."""
    for name, (read, words) in READ.items():
        if text := given.get(FIELDS.get(name, name), "").strip():
            try:
                yield name, read(text)
            except ValueError:
                raise TrainmasterError(
                    "request_invalid", what=f"{name} {text[:40]!r}", why=f"it must be {words}", field=name
                ) from None
    yield "dtype", given.get("dtype", "")
    yield "gpu_type", given.get("gpu_type", "").strip()
    yield "formats", given.getlist("formats")


def _current(request: HttpRequest) -> tuple[dict[str, Any], tuple[str, ...]]:
    team, name = request.GET.get("team", ""), request.GET.get("name", "")
    row = exports.targets(actor_of(request).sees).filter(team=team, name=name).first()
    if row is None:
        return {"team": team}, ()
    asked = dict(row.constraints)
    memory = asked.pop(MEMORY, 0)
    formats = tuple(asked.pop("formats", ()))
    return {"team": team, "name": name, **asked, "max_memory": _size(memory)}, formats


def _size(memory: int) -> str:
    """As the form takes it, exactly."""
    text = format_bytes(memory)
    try:
        return "" if not memory else text if parse_bytes(text) == memory else str(memory)
    except ValueError:
        return str(memory)


def _list(
    request: HttpRequest,
    values: Mapping[str, Any],
    chosen: tuple[str, ...],
    problems: Mapping[str, str] | None = None,
    status: int = 422,
) -> HttpResponse:
    actor = actor_of(request)
    teams = tuple(
        view.slug for view in team_views(actor.sees) if permissions.may(actor, "target.set", view.slug)
    )
    page = TargetsPage(
        targets=tuple(_line(row, teams) for row in exports.targets(actor.sees)),
        teams=teams,
        dtypes=tuple(Dtype),
        gpu_types=tuple(sorted({*quotas.gpu_types(), *filter(None, [values.get("gpu_type")])})),
        formats=tuple(Format),
        chosen=chosen,
        values=values,
        problems=problems or {},
    )
    return fragments.render(request, "registry/targets.html", page, status=status if problems else 200)


def _line(row: ServingTarget, teams: tuple[str, ...]) -> TargetLine:
    return TargetLine(row.team_id, target_row(row), row.changed_ms, row.team_id in teams)
