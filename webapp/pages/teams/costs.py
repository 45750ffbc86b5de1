"""The section Costs of a team's page: GPU-hours and money by member and by job, and work lost to preemption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.units import DAY_MS
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.pages import fragments
from webapp.pages.queue import panels as queue_panels
from webapp.pages.teams.frame import Team, team_of
from webapp.pages.teams.quota import PERIOD_DAYS, PERIOD_WORDS
from webapp.quotas import queries
from webapp.quotas.queries import JobCost, MemberCost

JOBS_SHOWN = 10
SHOWN_IF_ALL_ARE_CHEAP = 5
CENT = 10_000  # micro-dollars


@dataclass(frozen=True, slots=True)
class JobRow:
    id: str
    name: str
    user: str
    gpu_ms: int
    micro_dollars: int


@dataclass(frozen=True, slots=True)
class OtherJobs:
    """All that are not listed, as one row."""

    count: int
    gpu_ms: int
    micro_dollars: int
    cheap: bool  # none of them reached a cent


@dataclass(frozen=True, slots=True)
class CostsPage:
    team: Team
    period: str
    micro_dollars: int
    gpu_ms: int
    members: tuple[MemberCost, ...]
    jobs: tuple[JobRow, ...]
    others: OtherJobs | None
    receipts: Callable[[], Any]
    losses: Callable[[], Any]
    section: str = "costs"


@login_required
@require_safe
def costs(request: HttpRequest, slug: str) -> HttpResponse:
    team, now = team_of(request, slug), now_ms()
    since = now - PERIOD_DAYS * DAY_MS
    members = queries.costs_by_member(slug, since, now)
    shown, others = _split(queries.costs_by_job(slug, since, now))
    names = jobs.names(cost.id for cost in shown)
    page = CostsPage(
        team=team,
        period=PERIOD_WORDS,
        micro_dollars=sum(member.micro_dollars for member in members),
        gpu_ms=sum(member.gpu_ms for member in members),
        members=members,
        jobs=tuple(
            JobRow(cost.id, names.get(cost.id, cost.id), cost.user, cost.gpu_ms, cost.micro_dollars)
            for cost in shown
        ),
        others=others,
        **queue_panels.of_team(actor_of(request), slug),
    )
    return fragments.render(request, "teams/costs.html", page)


def _split(costs: Sequence[JobCost]) -> tuple[Sequence[JobCost], OtherJobs | None]:
    """The dearest jobs, and the rest as one sum: nobody reads twenty rows of "<$0.01"."""
    dear = sum(cost.micro_dollars >= CENT for cost in costs)
    shown = min(dear, JOBS_SHOWN) if dear else SHOWN_IF_ALL_ARE_CHEAP
    rest = costs[shown:]
    if not rest:
        return costs, None
    others = OtherJobs(
        count=len(rest),
        gpu_ms=sum(cost.gpu_ms for cost in rest),
        micro_dollars=sum(cost.micro_dollars for cost in rest),
        cheap=rest[0].micro_dollars < CENT,
    )
    return costs[:shown], others
