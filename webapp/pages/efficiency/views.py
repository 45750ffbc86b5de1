"""Utilisation, MFU and waste of a week by team, user and GPU type, with the jobs that cause it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.efficiency import chargeback as charging
from platform_core.efficiency.waste import Total, Use, total, totals
from platform_core.units import HOUR_MS, MICRO_DOLLARS
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments.usage import uses
from webapp.pages import fragments
from webapp.pages.report import weeks
from webapp.pages.report.weeks import WEEK_MS, Week

GROUPS: dict[str, tuple[str, Callable[[Use], str]]] = {
    "team": ("Team", lambda use: use.team),
    "user": ("User", lambda use: use.user),
    "gpu_type": ("GPU type", lambda use: use.gpu_type),
}
MOST_JOBS, WEEKS = 50, 8
_COLUMNS = (
    "job", "name", "team", "user", "gpu_type", "gpu_hours", "dollars", "utilisation", "mfu", "wasted_gpu_hours",
    "wasted_dollars",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WeekTotal:
    week: Week
    total: Total


@dataclass(frozen=True, slots=True)
class EfficiencyPage:
    """Query: week, as 2026-W46, without it the current one; by: team, user or gpu_type; format: csv."""

    week: Week
    before: str
    after: str
    by: str
    groups: dict[str, str]  # of `by`: value and label
    whole: Total
    totals: Sequence[Total]
    jobs: Sequence[Use]  # those that waste most
    more_jobs: int
    month: str  # the last that is over, for the chargeback
    trend: Callable[[], Sequence[WeekTotal]]  # the newest first


@login_required
@require_GET
def efficiency(request: HttpRequest) -> HttpResponse:
    """Everybody sees their own teams; admins see all."""
    actor = actor_of(request)
    require(actor, "cluster.view")
    now = now_ms()
    asked, current = request.GET.get("week", ""), weeks.of(now)
    week = weeks.read(asked, now) if asked and asked != current.name else current
    by = request.GET.get("by", "") if request.GET.get("by", "") in GROUPS else "team"
    found = sorted(
        uses(actor.sees, week.from_ms, min(now, week.to_ms)), key=lambda use: (-use.wasted_ms, use.job)
    )
    if request.GET.get("format") == "csv":
        headers = {"Content-Disposition": f'attachment; filename="efficiency-{week.name}.csv"'}
        return HttpResponse(as_csv(found), content_type="text/csv; charset=utf-8", headers=headers)
    wasting = [use for use in found if use.wasted_ms]
    page = EfficiencyPage(
        week=week,
        before=weeks.of(week.from_ms - WEEK_MS).name,
        after="" if week == current else weeks.of(week.to_ms).name,
        by=by,
        groups={name: label for name, (label, _) in GROUPS.items()},
        whole=total("", found),
        totals=totals(found, GROUPS[by][1]),
        jobs=wasting[:MOST_JOBS],
        month=charging.period_of("", "", "", now).first[:7],
        more_jobs=max(0, len(wasting) - MOST_JOBS),
        trend=lambda: [
            WeekTotal(each, total("", uses(actor.sees, each.from_ms, min(now, each.to_ms))))
            for each in (weeks.of(week.from_ms - place * WEEK_MS) for place in range(WEEKS))
        ],
    )
    return fragments.render(request, "efficiency/efficiency.html", page)


@login_required
@require_GET
def chargeback(request: HttpRequest) -> HttpResponse:
    """The charges of a month as CSV. Query: month, as 2026-10, without it the last that is over."""
    actor, now = actor_of(request), now_ms()
    require(actor, "cluster.view")
    period = charging.period_of(request.GET.get("month", ""), "", "", now)
    found = charging.charges(uses(actor.sees, period.from_ms, min(now, period.to_ms)))
    name = f"chargeback-{period.first[:7]}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    text = charging.as_csv(found, period)
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def as_csv(found: Sequence[Use]) -> str:
    """A line a job. A text that a spreadsheet would compute is kept from it by a quote."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for use in found:
        texts = (use.job, use.name, use.team, use.user, use.gpu_type)
        guarded = [f"'{each}" if each.startswith(tuple("=+-@\t\r")) else each for each in texts]
        hours, wasted = (f"{ms / HOUR_MS:.3f}" for ms in (use.gpu_ms, use.wasted_ms))
        cost, lost = (f"{sum_ / MICRO_DOLLARS:.2f}" for sum_ in (use.micro_dollars, use.wasted_micro_dollars))
        shares = ("" if each is None else f"{each:.3f}" for each in (use.utilisation, use.mfu))
        writer.writerow((*guarded, hours, cost, *shares, wasted, lost))
    return text.getvalue()
