"""Fair share of the whole cluster: what each team deserves, holds, borrows and lends, and how that came about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.quotas.fair_share import HALF_LIFE_MS
from platform_core.units import DAY_MS
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.nodes import queries as nodes
from webapp.pages import fragments
from webapp.pages.teams.quota import unit_of
from webapp.quotas import sharing
from webapp.quotas.sharing import Branch, Standing, Standings

HALF_LIFE_DAYS = HALF_LIFE_MS // DAY_MS
PERIODS = {  # name: length, points of a plot, words
    "day": (DAY_MS, 360, "last 24 hours"),
    "week": (7 * DAY_MS, 336, "last 7 days"),
    "month": (30 * DAY_MS, 360, "last 30 days"),
}
DEEPEST = 4  # further in nothing is indented more
NOBODY = Standings((), {}, {})
_CHARTS = (  # id, title, unit, series as (figure, its name)
    (
        "held",
        "Allocated and deserved",
        "GPUs",
        (("held", "allocated"), ("deserved", "deserved"), ("guaranteed", "guaranteed")),
    ),
    (
        "borrowed",
        "Borrowed and lent",
        "GPUs",
        (("borrowed", "borrowed above the guarantee"), ("lent", "lent to other teams")),
    ),
    (
        "usage",
        "Recent use relative to the share",
        "× of the share",
        (("usage_share", "recent use"), ("its_share", "fair share")),
    ),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the address says, with what stands in for what it does not say."""

    gpu_type: str
    period: str
    team: str


@dataclass(frozen=True, slots=True)
class Answer:
    tone: str
    head: str
    text: str


@dataclass(frozen=True, slots=True)
class Sums:
    """The numbers of some teams together."""

    teams: int
    guaranteed: int
    maximum: int
    deserved: int
    held: int
    borrowed: int
    lent: int
    recent_gpu_ms: int


@dataclass(frozen=True, slots=True)
class Row:
    """A team, or a department with the sums of all its teams."""

    label: str
    key: str
    department: bool
    sums: Sums
    branch: Branch
    counts: str  # "0.71 ×" where the department's use moves the team's place in the queue

    @property
    def depth(self) -> int:
        return min(len(self.branch.way) - 1, DEEPEST)

    @property
    def weight(self) -> str:
        return f"{self.branch.weight:g}"

    @property
    def percent(self) -> str:
        return f"{100 * self.branch.part:.3g} %"

    @property
    def usage_share(self) -> str:
        return f"{self.branch.usage_share:.2f} ×"


@dataclass(frozen=True, slots=True)
class Chart:
    id: str
    title: str
    data: dict[str, Any]  # as static/js/chart-data.js reads it


@dataclass(frozen=True, slots=True)
class SharesPage:
    chosen: Chosen
    types: tuple[str, ...]
    periods: Mapping[str, str]
    period: str  # the words of the chosen one
    half_life_days: int
    rows: list[Row]
    others: Sums  # teams that the reader may not see
    all: Sums
    capacity: int  # GPUs of the type on nodes that take work
    answer: Answer | None  # about the chosen team
    charts: Callable[[], list[Chart]]


@login_required
@require_safe
def shares(request: HttpRequest) -> HttpResponse:
    """Everybody sees their own teams, and the others as one sum; admins see all."""
    actor = actor_of(request)
    require(actor, "cluster.view")
    now = now_ms()
    standings = sharing.standings(now)
    seen = actor.sees
    own = {
        gpu_type: [standing for standing in of_type.teams if seen is None or standing.quota.team in seen]
        for gpu_type, of_type in standings.items()
    }
    chosen = _chosen(request, own)
    of_type = standings.get(chosen.gpu_type, NOBODY)
    teams = own.get(chosen.gpu_type, [])
    shown = next((standing for standing in teams if standing.quota.team == chosen.team), None)
    length_ms, points, words = PERIODS[chosen.period]
    page = SharesPage(
        chosen=chosen,
        types=tuple(standings),
        periods={name: words for name, (_, _, words) in PERIODS.items()},
        period=words,
        half_life_days=HALF_LIFE_DAYS,
        rows=_rows(of_type, teams),
        others=_sums([standing for standing in of_type.teams if standing not in teams]),
        all=_sums(of_type.teams),
        capacity=nodes.slots_by_type().get(chosen.gpu_type, 0),
        answer=answer(shown) if shown else None,
        charts=lambda: charts(chosen.team, chosen.gpu_type, now - length_ms, now, points) if shown else [],
    )
    return fragments.render(request, "teams/shares.html", page)


def _chosen(request: HttpRequest, own: dict[str, list[Standing]]) -> Chosen:
    asked = request.GET
    with_teams = [gpu_type for gpu_type, teams in own.items() if teams]
    gpu_type = asked.get("gpu_type", "")
    if gpu_type not in own:
        gpu_type = next(iter(with_teams or own), "")
    teams = [standing.quota.team for standing in own.get(gpu_type, [])]
    team = asked.get("team", "")
    return Chosen(
        gpu_type,
        asked.get("period", "") if asked.get("period", "") in PERIODS else "day",
        team if team in teams else next(iter(teams), ""),
    )


def _rows(of_type: Standings, own: Sequence[Standing]) -> list[Row]:
    """These teams below the departments that they are in."""
    above = {name for standing in own for name in standing.branch.way[:-1]}
    departments = [
        Row(
            label=of_type.names[name],
            key=name,
            department=True,
            sums=_sums([standing for standing in of_type.teams if name in standing.branch.way]),
            branch=of_type.departments[name],
            counts="",
        )
        for name in above
    ]
    # Departments before the teams beside them, each by name.
    return sorted(
        [*departments, *(_row(standing) for standing in own)],
        key=lambda row: [(name not in above, of_type.names.get(name, name), name) for name in row.branch.way],
    )


def _row(standing: Standing) -> Row:
    quota = standing.quota
    in_department = len(standing.branch.way) > 1
    return Row(
        label=quota.team,
        key=quota.team,
        department=False,
        sums=_sums([standing]),
        branch=standing.branch,
        counts=f"{quota.usage_share:.2f} ×" if in_department else "",
    )


def _sums(standings: Sequence[Standing]) -> Sums:
    return Sums(
        teams=len(standings),
        guaranteed=sum(standing.quota.guaranteed for standing in standings),
        maximum=sum(standing.quota.maximum for standing in standings),
        deserved=sum(standing.share.deserved for standing in standings),
        held=sum(standing.quota.used for standing in standings),
        borrowed=sum(standing.share.borrowed for standing in standings),
        lent=sum(standing.share.lent for standing in standings),
        recent_gpu_ms=sum(standing.recent_gpu_ms for standing in standings),
    )


def answer(standing: Standing) -> Answer:
    """The state of one team in a sentence, and what follows from it."""
    quota, share = standing.quota, standing.share
    team, held, guaranteed, unit = quota.team, quota.used, quota.guaranteed, unit_of(quota.gpu_type)
    if share.borrowed:
        head = f"{team} uses all {guaranteed} guaranteed {unit} and {share.borrowed} borrowed"
        return Answer("run", head, "What is borrowed is reclaimed from preemptible jobs when its owner asks.")
    head = f"{team} uses {held} of {guaranteed} guaranteed {unit}"
    if share.lent:
        text = f"Other teams borrow {share.lent} of the rest. {team} gets them back as soon as it asks."
        return Answer("wait", head, text)
    if not guaranteed:
        head = f"{team} is guaranteed no {unit}"
    text = f"It may use up to {quota.maximum} while other teams leave them free."
    if quota.maximum == guaranteed:
        text = "It may not borrow: its maximum is its guarantee."
    return Answer("ok" if held else "off", head, text)


def charts(team: str, gpu_type: str, since: int, now: int, points: int) -> list[Chart]:
    """The x axis begins with the first record where the cluster is younger than the period."""
    past = sharing.history(team, gpu_type, since, now, points)
    begin = _first(past, since)
    if begin - since > (now - since) // points:  # the same number of points for the shorter time
        past = sharing.history(team, gpu_type, begin, now, points)
    if not past["at_ms"]:
        return []
    past["its_share"] = [1.0 for _ in past["at_ms"]]
    return [
        Chart(f"chart-{key}", title, _chart(past, (begin, now), unit, series))
        for key, title, unit, series in _CHARTS
    ]


def _first(past: dict[str, list[float | None]], since: int) -> int:
    first = next(iter(past["at_ms"]), None)
    return since if first is None else int(first)


def _chart(
    past: dict[str, list[float | None]], span: tuple[int, int], unit: str, series: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    highest = max((value for figure, _ in series for value in past[figure] if value is not None), default=0)
    return {
        "x": {"kind": "time", "title": "time", "min": span[0], "max": span[1]},
        "y": {"title": unit, "min": 0, "max": max(1, 1.05 * highest)},
        "series": [{"name": name, "key": figure, "x": past["at_ms"], "y": past[figure]} for figure, name in series],
        "marks": [],
    }  # fmt: skip
