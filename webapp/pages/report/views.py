"""The weekly report as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.units import DAY_MS
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import idle_policy
from webapp.jobs import queries as job_queries
from webapp.jobs.utilisation import KEPT_MS
from webapp.pages import fragments
from webapp.pages.report import report as reports
from webapp.pages.report import weeks

if TYPE_CHECKING:
    pass

WAITING_SHOWN = 8
EVENTS_SHOWN = 12
SINGLE_STEPS = (
    "MemberAssigned", "MemberPreparing", "MemberRunning", "CheckpointStarted", "CheckpointSaved",
    "WorkerReceiving", "WorkerComplete", "WorkerEvicted",
    "DeploymentDownloading", "DeploymentDistributing", "DeploymentVerifying",
)  # fmt: skip
ENDS_OF_MEMBERS = ("MemberExited", "MemberLost")  # the last of them is the end of the job
AUDIT_PAGE = 100
SEARCH_SHOWN = 10
BUSY_MS = 24 * 3_600_000
BUSY_POINTS = 600


@login_required
@require_GET
def report(request: HttpRequest) -> HttpResponse:
    now, asked = now_ms(), request.GET.get("week", "")
    week = weeks.read(asked, now) if asked else None
    context = {
        "week": week,
        "weeks": lambda: _weeks_beside(week, now),
        "kept_days": KEPT_MS // DAY_MS,
        "too_old": week is not None and week.from_ms < now - KEPT_MS,
        "report": lambda: reports.make(
            actor_of(request).sees, week.to_ms if week else now, is_over=bool(week)
        ),
        "least_ms": idle_policy.LEAST_MS,
        "idle_minutes": settings.IDLE_MINUTES,
        "idle_percent": settings.IDLE_PERCENT,
        "reclaims": settings.IDLE_RECLAIM,
    }
    return fragments.render(request, "report/report.html", context)


def _weeks_beside(week: weeks.Week | None, now: int) -> dict[str, str]:
    """The names of the weeks to go to. After the last that is over come the last seven days, which have none."""
    newest, begun_ms = weeks.newest(now), job_queries.first_submitted_ms()
    before = weeks.of(week.from_ms - 1) if week else newest
    return {
        "before": before.name if begun_ms is not None and begun_ms < before.to_ms else "",
        "after": weeks.of(week.to_ms).name if week and week.to_ms <= newest.from_ms else "",
    }
