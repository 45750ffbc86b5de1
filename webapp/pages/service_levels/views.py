"""The table of all service levels, and one of them week by week with its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.service_levels.objectives import Objective, percent
from platform_core.units import SECOND_MS
from webapp.accounts.permissions import may, require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.pages import fragments
from webapp.pages.figures import Figure
from webapp.pages.service_levels.presentation import LevelRow, WeekRow, figures, rows, weeks
from webapp.service_levels import queries, services
from webapp.service_levels.queries import Durations, Outage, StoppedTime


@dataclass(frozen=True, slots=True)
class ServiceLevelsPage:
    """Query: team, for the levels of one."""

    team: str
    teams: Sequence[str]  # whose levels the reader may see
    figures: Sequence[Figure]
    levels: Sequence[LevelRow]
    durations: Durations
    outages: Callable[[], Sequence[Outage]]
    stopped: Callable[[], StoppedTime]


@dataclass(frozen=True, slots=True)
class LevelPage:
    row: LevelRow
    weeks: Sequence[WeekRow]
    changed_by: str
    changed_ms: int | None
    may_change: bool
    values: Mapping[str, str]
    problems: Mapping[str, str]


@login_required
@require_GET
def service_levels(request: HttpRequest) -> HttpResponse:
    """Everybody sees those of the cluster; those of a team its people do."""
    actor, now, team = actor_of(request), now_ms(), request.GET.get("team", "")
    require(actor, "cluster.view")
    if team:
        require(actor, "team.view", team)
    found, durations = queries.levels(now, team), queries.durations(now, team)
    page = ServiceLevelsPage(
        team=team,
        teams=actor.teams,
        figures=figures(found, durations, of_team=bool(team)),
        levels=rows(found),
        durations=durations,
        outages=lambda: [] if team else queries.outages(now),
        stopped=lambda: queries.stopped(now),
    )
    return fragments.render(request, "service_levels/list.html", page)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def level(request: HttpRequest, code: str) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "cluster.view")
    problems: dict[str, str] = {}
    if request.method == "POST":
        require(actor, "platform.manage")
        try:
            target, limit_ms = _numbers(queries.entry(code).objective, request.POST.dict())
            services.set_objective(actor, code, target=target, limit_ms=limit_ms)
        except TrainmasterError as error:
            if error.code != "request_invalid":
                raise
            problems = {"objective": error.sentence}
        else:
            messages.success(request, "The objective is saved; past weeks are judged by it, too.")
            return redirect("service_levels:level", code)
    found = queries.level(code, now_ms())
    page = LevelPage(
        row=rows([found])[0],
        weeks=weeks(found),
        changed_by=found.entry.changed_by,
        changed_ms=found.entry.changed_ms,
        may_change=may(actor, "platform.manage"),
        values={**_values(found.objective), **request.POST.dict()},
        problems=problems,
    )
    return fragments.render(request, "service_levels/level.html", page, status=422 if problems else 200)


@login_required
@require_POST
def reset(request: HttpRequest, code: str) -> HttpResponse:
    services.reset(actor_of(request), code)
    messages.success(request, "The default objective holds again.")
    return redirect("service_levels:level", code)


def _values(objective: Objective) -> dict[str, str]:
    limit = "" if objective.limit_ms is None else f"{objective.limit_ms / SECOND_MS:g}"
    return {"target": percent(objective.target).removesuffix(" %"), "limit": limit}


def _numbers(objective: Objective, form: Mapping[str, str]) -> tuple[float, int | None]:
    """The target as a share, and the limit. Raises request_invalid for what is no number."""
    target = _number("target", form.get("target", "")) / 100
    limit = _number("limit", form.get("limit", "")) if objective.has_own_limit else None
    return round(target, 9), None if limit is None else round(limit * SECOND_MS)


def _number(name: str, text: str) -> float:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = float("nan")
    if not -1e12 < value < 1e12:
        raise TrainmasterError("request_invalid", what=name, why=f"{text[:40]!r} is no number")
    return value
