"""The section Share of a team's page: what it deserves, borrows and lends of each GPU type, and its recent use."""

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.base.identity import now_ms
from webapp.pages import fragments
from webapp.pages.teams.frame import Team, team_of
from webapp.pages.teams.shares import HALF_LIFE_DAYS, PERIODS, Answer, Chart, answer, charts
from webapp.quotas import sharing
from webapp.quotas.sharing import Standing


@dataclass(frozen=True, slots=True)
class ShareRow:
    standing: Standing
    answer: Answer

    @property
    def gpu_type(self) -> str:
        return self.standing.quota.gpu_type

    @property
    def recent_use(self) -> str:
        return f"{self.standing.branch.usage_share:.2f} ×"


@dataclass(frozen=True, slots=True)
class SharePage:
    team: Team
    rows: tuple[ShareRow, ...]
    chosen: str  # the GPU type of the charts
    charts: Callable[[], list[Chart]]
    half_life_days: int = HALF_LIFE_DAYS
    section: str = "share"


@login_required
@require_safe
def share(request: HttpRequest, slug: str) -> HttpResponse:
    team, now = team_of(request, slug), now_ms()
    rows = tuple(
        ShareRow(standing, answer(standing))
        for of_type in sharing.standings(now).values()
        for standing in of_type.teams
        if standing.quota.team == slug
    )
    types = [row.gpu_type for row in rows]
    asked = request.GET.get("gpu_type", "")
    chosen = asked if asked in types else next(iter(types), "")
    length_ms, points, _ = PERIODS["month"]
    page = SharePage(
        team=team,
        rows=rows,
        chosen=chosen,
        charts=lambda: charts(slug, chosen, now - length_ms, now, points) if chosen else [],
    )
    return fragments.render(request, "teams/share.html", page)
