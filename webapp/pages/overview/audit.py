"""The audit log: a team's events to its leads and members, all of them to platform admins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.events.queries import kinds, recent
from webapp.pages import fragments
from webapp.pages.paging import Pager

if TYPE_CHECKING:
    from webapp.events.models import Event

EVENTS_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Fragment: list. Query: kind, actor, subject, after."""

    events: list[Event]  # newest first
    filters: dict[str, str]
    filtered: bool
    kinds: Callable[[], list[str]]
    pager: Pager
    live: str  # subjects, with blanks between them


def may_watch(user: Any, team: str) -> bool:
    """Hints show nothing, and how many come: those of a team are for its people, those of all for admins."""
    actor = actor_of(user)
    return may(actor, "audit.view", team) if team else actor.is_admin


@login_required
@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    teams = None if actor.is_admin else [team for team in actor.teams if may(actor, "audit.view", team)]
    filters = {name: request.GET.get(name, "").strip() for name in ("kind", "actor", "subject")}
    cursor = request.GET.get("after", "")
    before = whole_number(cursor, "after") if cursor else None
    events = recent(teams, before=before, limit=EVENTS_A_PAGE + 1, **filters)
    more = len(events) > EVENTS_A_PAGE
    page = AuditPage(
        events=events[:EVENTS_A_PAGE],
        filters=filters,
        filtered=any(filters.values()),
        kinds=kinds,
        live="audit" if teams is None else " ".join(f"audit:{team}" for team in teams),
        pager=Pager(next=events[EVENTS_A_PAGE - 1].id if more else ""),
    )
    return fragments.render(request, "overview/audit.html", page)
