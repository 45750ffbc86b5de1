"""Open alerts and their history, one alert with who was told, and silences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from platform_core.alerting.machine import AlertState
from platform_core.alerting.measures import MEASURES
from platform_core.alerting.rules import Severity
from platform_core.errors import TrainmasterError
from platform_core.service_levels.objectives import BY_CODE as OBJECTIVES
from platform_core.units import HOUR_MS
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.alerts import queries, services
from webapp.alerts.models import Alert, Notice, Silence
from webapp.alerts.queries import Badge
from webapp.base.identity import now_ms
from webapp.pages import fragments
from webapp.pages.paging import Pager, paged

PAGE = 50
_PAGES = {"job": "jobs:detail", "node": "nodes:node", "team": "accounts:team"}


@dataclass(frozen=True, slots=True)
class AlertListPage:
    """Fragment: list. Query: state (open unless asked), team (- is the cluster), severity, rule."""

    filters: Mapping[str, str]
    teams: Sequence[str]
    severities: Sequence[str]
    states: Sequence[str]
    alerts: Sequence[Alert]
    pager: Pager
    badge: Badge
    silences: Callable[[], Sequence[Silence]]
    last_evaluated_ms: int | None
    live: str  # subjects, with blanks between them


@dataclass(frozen=True, slots=True)
class AlertPage:
    """Fragment: alert."""

    alert: Alert
    limit: str
    value: str
    worst: str
    subject_url: str
    notices: Sequence[Notice]
    silenced_until_ms: int | None
    may_handle: bool
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SilencePage:
    silences: Sequence[Silence]
    now_ms: int
    teams: Sequence[str]  # for which the reader may write one; "" is the platform
    rules: Sequence[tuple[str, str]]  # code and title
    values: Mapping[str, str]
    problems: Mapping[str, str]


@login_required
@require_GET
def alert_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    filters = {name: request.GET.get(name, "") for name in ("state", "team", "severity", "rule")}
    rows = queries.filtered(queries.visible(actor), **{**filters, "state": filters["state"] or "open"})
    shown, pager = paged(request, rows, PAGE)
    page = AlertListPage(
        filters=filters,
        teams=[view.slug for view in team_views(actor.sees)],
        severities=list(Severity),
        states=["open", "all", *(state for state in AlertState if state is not AlertState.PENDING)],
        alerts=shown,
        pager=pager,
        badge=queries.badge(actor),
        silences=lambda: queries.silences(actor, now_ms()),
        last_evaluated_ms=queries.last_evaluated_ms(),
        live="alerts:*"
        if actor.is_admin
        else " ".join(("alerts", *(f"alerts:{team}" for team in actor.teams))),
    )
    return fragments.render(request, "alerts/list.html", page)


@login_required
@require_GET
def detail(request: HttpRequest, alert_id: str) -> HttpResponse:
    return _show(request, alert_id)


def _show(
    request: HttpRequest, alert_id: str, problems: Mapping[str, str] | None = None, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    alert = queries.alert_for(actor, alert_id)
    unit = queries.unit_of(alert)
    page = AlertPage(
        alert=alert,
        limit=alert.condition,
        value=unit.words(alert.value),
        worst=unit.words(alert.worst),
        subject_url=_subject_url(alert),
        notices=queries.notices(alert),
        silenced_until_ms=queries.silenced_until(alert, now_ms()),
        may_handle=may_handle(actor, alert.team),
        problems=problems or {},
    )
    return fragments.render(request, "alerts/detail.html", page, status=status)


def _subject_url(alert: Alert) -> str:
    """The page of what the alert is about; "" for the cluster as a whole."""
    kind = queries.kind_of(alert)
    if kind == "cluster" and alert.subject in OBJECTIVES:
        return reverse("service_levels:level", args=[alert.subject])
    if kind == "endpoint":
        return reverse("serving:detail", args=[alert.team, alert.name])
    try:
        return reverse(_PAGES[kind], args=[alert.subject]) if kind in _PAGES else ""
    except NoReverseMatch:
        return ""


@login_required
@require_POST
def acknowledge(request: HttpRequest, alert_id: str) -> HttpResponse:
    services.acknowledge(actor_of(request), alert_id, request.POST.get("note", ""))
    messages.success(request, "The alert is acknowledged: nobody is told of it again until it is over.")
    return redirect("alerts:detail", alert_id)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def silences(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            _silence(actor, request.POST.dict())
        except TrainmasterError as error:
            if error.code != "request_invalid":
                raise
            problems = {"silence": error.sentence}
        else:
            messages.success(request, "The silence holds from now on.")
            return redirect("alerts:silences")
    page = SilencePage(
        silences=queries.silences(actor, now_ms(), over=True),
        now_ms=now_ms(),
        teams=teams_for(actor, "alert.handle"),
        rules=[(entry.rule.code, entry.rule.title) for entry in queries.catalogue.entries()],
        values={"hours": "2", **request.GET.dict(), **request.POST.dict()},
        problems=problems,
    )
    return fragments.render(request, "alerts/silences.html", page, status=422 if problems else 200)


def _silence(actor: Actor, form: Mapping[str, str]) -> None:
    try:
        hours = float(form.get("hours", ""))
    except ValueError:
        hours = 0.0
    lasts_ms = round(hours * HOUR_MS) if 0 < hours < 10_000 else 0
    services.silence(
        actor, form.get("team", ""), lasts_ms=lasts_ms, reason=form.get("reason", ""), rule=form.get("rule", ""),
        subject=form.get("subject", ""),
    )  # fmt: skip


@login_required
@require_POST
def end_silence(request: HttpRequest, silence_id: int) -> HttpResponse:
    services.end_silence(actor_of(request), silence_id)
    messages.success(request, "The silence is over: people are told again.")
    return redirect("alerts:silences")


def may_handle(actor: Actor, team: str) -> bool:
    return may(actor, "alert.handle", team) if team else actor.is_admin


def teams_for(actor: Actor, action: str) -> list[str]:
    """The teams for which the actor may do this; "" for the platform, first, if they are an admin."""
    platform = [""] if actor.is_admin else []
    return [*platform, *(view.slug for view in team_views(actor.sees) if may(actor, action, view.slug))]


def measures_in_words() -> list[tuple[str, str, str]]:
    """Name, unit and meaning of every measure."""
    return [(measure.name, measure.unit.value, measure.words) for measure in MEASURES.values()]
