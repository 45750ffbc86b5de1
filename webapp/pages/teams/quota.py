"""The section Quota of a team's page: what it holds of each GPU type, what it may hold, and the form to change that."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST, require_safe

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, format_duration_ms
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.events import queries as events
from webapp.events.models import Event
from webapp.jobs import queries as jobs
from webapp.pages import fragments
from webapp.pages.teams.forms import QuotaForm
from webapp.pages.teams.frame import Team, submit, team_of
from webapp.pages.wording import slot_noun
from webapp.quotas import queries, services
from webapp.quotas.queries import QuotaView

PERIOD_DAYS = 30
PERIOD_WORDS = f"last {PERIOD_DAYS} days"
MAX_DAYS = 366
MOST_STEPS = 1_000  # a plot shows no more than this; what is between is drawn at its highest
MARGIN = 0.05  # before the first use, as a part of the time since then
CHANGES_SHOWN = 10
CHANGE_SUBJECTS = ("team", "quota", "secret", "token")

Steps = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    quota: QuotaView
    queued: int  # GPUs that waiting jobs ask for

    @property
    def note(self) -> str:
        """What a reader should know beyond the numbers, or nothing."""
        quota = self.quota
        if quota.held > quota.maximum:
            excess = quota.held - quota.maximum
            return f"{excess} over the maximum since it was lowered; they are freed as jobs end."
        if quota.held + self.queued > quota.maximum:
            return f"{quota.held + self.queued - quota.maximum} of {self.queued} queued wait for the quota."
        return ""


@dataclass(frozen=True, slots=True)
class UseChart:
    chart: dict[str, Any]  # as static/js/chart-data.js reads it
    period: str


@dataclass(frozen=True, slots=True)
class QuotaPage:
    team: Team
    rows: Callable[[], tuple[QuotaRow, ...]]
    headline: Callable[[], str]
    rate: Callable[[], int]  # micro-dollars an hour, now
    use: Callable[[], UseChart]
    changes: Callable[[], list[Event]]
    problems: Mapping[str, str]
    section: str = "quota"


@login_required
@require_safe
def quota(request: HttpRequest, slug: str) -> HttpResponse:
    return _page(request, slug, {}, 200)


def _page(request: HttpRequest, slug: str, problems: Mapping[str, str], status: int) -> HttpResponse:
    team = team_of(request, slug)
    rows = cache(lambda: _rows(team))
    now = now_ms()
    page = QuotaPage(
        team=team,
        rows=rows,
        headline=lambda: headline(team.name, [row.quota for row in rows()]),
        rate=lambda: sum(row.quota.held * row.quota.price_hour for row in rows()),
        use=lambda: fitted_use(slug, now),
        changes=lambda: events.of_team(slug, CHANGE_SUBJECTS, CHANGES_SHOWN),
        problems=problems,
    )
    return fragments.render(request, "teams/quota.html", page, status=status)


def _rows(team: Team) -> tuple[QuotaRow, ...]:
    # Who may not change a guarantee needs no notice about all of them.
    quotas = queries.quotas(team.slug, with_notices=team.edit_quota)
    queued = jobs.queued_by_type(team.slug)
    return tuple(QuotaRow(quota, queued.get(quota.gpu_type, 0)) for quota in quotas)


def headline(team: str, quotas: Sequence[QuotaView]) -> str:
    """ "Vision uses 6 of 8 guaranteed h100 GPUs" or "Vision uses all 4 guaranteed cpu slots and 2 borrowed"."""
    if not quotas:
        return f"{team} has no quota, so its jobs are refused"
    return f"{team} uses " + "; ".join(map(_use_in_words, quotas))


def unit_of(gpu_type: str) -> str:
    """ "h100 GPUs" or "cpu slots"."""
    return f"{gpu_type} {slot_noun([gpu_type])}s"


def _use_in_words(quota: QuotaView) -> str:
    unit = unit_of(quota.gpu_type)
    if not quota.guaranteed:
        return f"{quota.held} borrowed {unit}" if quota.held else f"no {unit} and is guaranteed none"
    if quota.borrowed:
        return f"all {quota.guaranteed} guaranteed {unit} and {quota.borrowed} borrowed"
    return f"{quota.held} of {quota.guaranteed} guaranteed {unit}"


@login_required
@require_POST
def edit(request: HttpRequest, slug: str) -> HttpResponse:
    def save() -> None:
        form = QuotaForm(request.POST)
        if not form.is_valid():
            raise TrainmasterError("request_invalid", form.sentence())
        services.edit_quota(actor_of(request), slug, **form.changes())

    done = f"Quota for {request.POST.get('gpu_type', '')} saved."
    return submit(request, slug, save, done, section="accounts:team", show=_page)


@login_required
@require_safe
def use(request: HttpRequest, slug: str) -> JsonResponse:
    """GPUs in use over time, as the chart reads it; `?days=` back from now."""
    require(actor_of(request), "quota.view", slug)
    days = whole_number(request.GET.get("days", str(PERIOD_DAYS)), "days", MAX_DAYS, 1)
    now = now_ms()
    return JsonResponse(use_chart(slug, now - days * DAY_MS, now))


def fitted_use(team: str, now: int) -> UseChart:
    """The last 30 days, or the time since the first use where the team is younger."""
    since = now - PERIOD_DAYS * DAY_MS
    use = queries.use_over_time(team, since, now)
    first = min((steps[1][0] for steps in use.values() if len(steps) > 1 and not steps[0][1]), default=since)
    if any(steps[0][1] for steps in use.values()):
        first = since
    begin = max(since, first - round(MARGIN * (now - first)))
    fits = begin > since
    words = f"since the first use, {format_duration_ms(now - first)} ago" if fits else PERIOD_WORDS
    return UseChart(_chart(team, use, begin, now), words)


def use_chart(team: str, since: int, now: int) -> dict[str, Any]:
    """A stepped line for each GPU type, a mark for each changed limit."""
    return _chart(team, queries.use_over_time(team, since, now), since, now)


def _chart(team: str, use: Mapping[str, Steps], since: int, now: int) -> dict[str, Any]:
    changes = [
        event
        for event in events.of_team(team, ("quota",))
        if event.kind == "QuotaChanged" and event.at_ms >= since
    ]
    return {
        "x": {"kind": "time", "title": "time"},
        "y": {"title": "GPUs", "min": 0},
        "series": [
            _line(gpu_type, thin(_from(steps, since), since, now), now) for gpu_type, steps in use.items()
        ],
        "marks": [{"x": event.at_ms, "text": _mark(event.data)} for event in reversed(changes)],
    }


def _from(steps: Steps, since: int) -> Steps:
    """The same steps where they begin later: nothing was held before."""
    return ((max(since, steps[0][0]), steps[0][1]), *steps[1:])


def _line(gpu_type: str, steps: Steps, now: int) -> dict[str, Any]:
    """A line through both ends of each step, so that it is drawn as steps."""
    xs: list[int] = []
    ys: list[int] = []
    for at_ms, level in steps:
        if ys:
            xs.append(at_ms)
            ys.append(ys[-1])
        xs.append(at_ms)
        ys.append(level)
    return {"name": gpu_type, "key": gpu_type, "x": [*xs, now], "y": [*ys, ys[-1]]}


def thin(steps: Steps, since: int, now: int) -> Steps:
    """At most MOST_STEPS equal spans, each at the highest that it saw; the last level stays what it is."""
    if len(steps) <= MOST_STEPS:
        return steps
    width = -(-(now - since) // MOST_STEPS)
    highest: dict[int, int] = {}
    level = 0
    for at_ms, after in steps:
        span = (at_ms - since) // width
        highest[span] = max(highest.get(span, level), after)
        level = after
    thinned = [(since + span * width, level) for span, level in sorted(highest.items())]
    return (*thinned, steps[-1]) if thinned[-1][1] != steps[-1][1] else tuple(thinned)


def _mark(data: dict[str, Any]) -> str:
    before, after = data.get("before"), data.get("after")
    was = f"{before['maximum']} → " if before else ""
    return f"{data.get('gpu_type')}: {was}{after['maximum'] if after else 'no quota'}"
