"""The weekly report as a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from webapp.pages.report.report import Report
from webapp.pages.report.weeks import Week


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Fragment: report. Query: week, one that is over, as 2026-W46; without it the last seven days."""

    week: Week | None
    weeks: Callable[[], dict[str, str]]  # names of the weeks before and after, or ""
    kept_days: int  # for how long samples are kept
    too_old: bool  # no samples of the week are kept
    report: Callable[[], Report]  # of what the reader may see
    least_ms: int  # for how long a job must be measured to be among the least busy
    idle_minutes: float
    idle_percent: float
    reclaims: bool  # whether idle slots are reclaimed


@login_required
@require_GET
def report(request: HttpRequest) -> HttpResponse:
    now, asked = now_ms(), request.GET.get("week", "")
    week = weeks.read(asked, now) if asked else None
    page = ReportPage(
        week=week,
        weeks=lambda: _weeks_beside(week, now),
        kept_days=KEPT_MS // DAY_MS,
        too_old=week is not None and week.from_ms < now - KEPT_MS,
        report=lambda: reports.make(actor_of(request).sees, week.to_ms if week else now, is_over=bool(week)),
        least_ms=idle_policy.LEAST_MS,
        idle_minutes=settings.IDLE_MINUTES,
        idle_percent=settings.IDLE_PERCENT,
        reclaims=settings.IDLE_RECLAIM,
    )
    return fragments.render(request, "report/report.html", page)


def _weeks_beside(week: Week | None, now: int) -> dict[str, str]:
    """The names of the weeks to go to. After the last that is over come the last seven days, which have none."""
    newest, begun_ms = weeks.newest(now), job_queries.first_submitted_ms()
    before = weeks.of(week.from_ms - 1) if week else newest
    return {
        "before": before.name if begun_ms is not None and begun_ms < before.to_ms else "",
        "after": weeks.of(week.to_ms).name if week and week.to_ms <= newest.from_ms else "",
    }
