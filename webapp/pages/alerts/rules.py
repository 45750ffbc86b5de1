"""Rules: the table, and one rule with its meaning, its remedy, its preview and its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from platform_core.alerting.expression import text_of
from platform_core.alerting.rules import Severity
from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.alerts import queries, services
from webapp.alerts.catalogue import Entry
from webapp.alerts.models import Alert
from webapp.base.identity import now_ms
from webapp.pages import fragments
from webapp.pages.alerts.views import measures_in_words, teams_for

FIRINGS_SHOWN = 50
NEW = "new"


@dataclass(frozen=True, slots=True)
class RuleListPage:
    entries: Sequence[Entry]
    may_write: bool


@dataclass(frozen=True, slots=True)
class RulePage:
    """Fragment: preview. Query: condition, to preview another one than the rule has."""

    entry: Entry | None  # None for a new one
    code: str
    values: Mapping[str, str]
    severities: Sequence[str]
    teams: Sequence[str]  # in which a new one may be written
    measures: Sequence[tuple[str, str, str]]
    may_edit: bool
    problems: Mapping[str, str]
    preview: Callable[[], Mapping[str, Any]]
    newest: Callable[[], Sequence[Alert]]


@login_required
@require_GET
def rule_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    page = RuleListPage(_seen(actor), bool(teams_for(actor, "alert.configure")))
    return fragments.render(request, "alerts/rules.html", page)


def _seen(actor: Actor) -> list[Entry]:
    """Rules of the platform are everybody's, those of a team its people's."""
    return [
        entry
        for entry in queries.catalogue.entries()
        if not entry.rule.team or may(actor, "alert.view", entry.rule.team)
    ]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def rule(request: HttpRequest, code: str) -> HttpResponse:
    actor = actor_of(request)
    entry = next((entry for entry in _seen(actor) if entry.rule.code == code), None)
    if entry is None and code != NEW:
        raise TrainmasterError("not_found", what=f"alert rule {code}")
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            saved = _save(actor, entry, request.POST.dict())
        except TrainmasterError as error:
            if error.code not in ("request_invalid", "duplicate_name"):
                raise
            problems = {"rule": error.sentence}
        else:
            messages.success(request, "The rule is saved and holds from the next evaluation on.")
            return redirect("alerts:runbook", saved)
    teams = teams_for(actor, "alert.configure")
    values = {**_values(entry), **request.GET.dict(), **request.POST.dict()}
    team = entry.rule.team if entry else ""
    page = RulePage(
        entry=entry,
        code=code,
        values=values,
        severities=list(Severity),
        teams=teams,
        measures=measures_in_words(),
        may_edit=(may(actor, "alert.configure", team) if team else actor.is_admin) if entry else bool(teams),
        problems=problems,
        preview=lambda: _preview(actor, entry, values),
        newest=lambda: list(queries.filtered(queries.visible(actor), rule=code)[:10]) if entry else [],
    )
    return fragments.render(request, "alerts/rule.html", page, status=422 if problems else 200)


def _save(actor: Actor, entry: Entry | None, form: Mapping[str, str]) -> str:
    code = entry.rule.code if entry else form.get("code", "").strip()
    team = entry.rule.team if entry else form.get("team", "")
    if not entry and code == NEW:
        raise TrainmasterError(
            "request_invalid", what="code 'new'", why="it is taken by this form; choose another"
        )
    saved = services.save_rule(
        actor, team, code, title=form.get("title", "") or (entry.rule.title if entry else ""),
        condition=form.get("condition", ""), severity=form.get("severity", ""), remedy=form.get("remedy", ""),
        enabled="enabled" in form,
    )  # fmt: skip
    return saved.code


def _values(entry: Entry | None) -> dict[str, str]:
    if entry is None:
        return {
            "severity": Severity.WARNING,
            "condition": "job.utilisation < 50 for 30m clear 60",
            "enabled": "on",
        }
    rule = entry.rule
    return {
        "title": rule.title, "condition": text_of(rule.condition), "severity": rule.severity, "remedy": rule.remedy,
        **({"enabled": "on"} if entry.enabled else {}),
    }  # fmt: skip


def _preview(actor: Actor, entry: Entry | None, values: Mapping[str, str]) -> Mapping[str, Any]:
    """When the condition of the form would have fired within the last week, or why it cannot be read."""
    try:
        condition = queries.parsed(values["condition"])
    except TrainmasterError as error:
        return {"problem": error.sentence}
    base = entry.rule if entry else queries.rule_to_try(values["condition"])
    team = base.team if entry else values.get("team", "")
    if team and not may(actor, "alert.view", team):
        team = ""
    found = queries.preview(actor, replace(base, condition=condition), team, now_ms())
    return {
        "condition": condition,
        "count": len(found),
        "firings": [(firing, condition.of.unit.words(firing.worst)) for firing in found[:FIRINGS_SHOWN]],
        "names": queries.names([firing.subject for firing in found[:FIRINGS_SHOWN]]),
        "since_ms": queries.first_sample_ms(condition.measure),
    }


@login_required
@require_POST
def delete(request: HttpRequest, code: str) -> HttpResponse:
    services.delete_rule(actor_of(request), code)
    if queries.catalogue.is_built_in(code):
        messages.success(request, "The rule is as it was built in again.")
        return redirect("alerts:runbook", code)
    messages.success(request, "The rule is deleted; its open alerts end with the next evaluation.")
    return redirect("alerts:rules")
