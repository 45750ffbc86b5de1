"""Fair share: what each team deserves, holds, borrows and lends, and how that came about."""

from collections.abc import Sequence
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
from webapp.quotas import sharing
from webapp.quotas.sharing import Branch, Standing, Standings

PERIODS = {  # name: length, points of a plot, words
    "day": (DAY_MS, 360, "last 24 hours"),
    "week": (7 * DAY_MS, 336, "last 7 days"),
    "month": (30 * DAY_MS, 360, "last 30 days"),
}
DEEPEST = 4  # further in nothing is indented more
NOBODY = Standings((), {}, {})
_SUMMED = ("guaranteed", "maximum", "deserved", "held", "borrowed", "lent", "recent_gpu_ms")
_CHARTS = (  # id, title, unit, series as (figure, its name)
    (
        "held",
        "Allocated against deserved",
        "slots",
        (("held", "allocated"), ("deserved", "deserved"), ("guaranteed", "guaranteed")),
    ),
    (
        "borrowed",
        "Borrowed and lent",
        "slots",
        (("borrowed", "borrowed above its guarantee"), ("lent", "lent to others")),
    ),
    (
        "usage",
        "Used lately, of its share",
        "times its share",
        (("usage_share", "used lately"), ("its_share", "its share")),
    ),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the address says, with what stands in for what it does not say."""

    gpu_type: str
    period: str
    team: str


@login_required
@require_safe
def shares(request: HttpRequest) -> HttpResponse:
    """Everybody sees the own teams and the others as one sum; admins see all."""
    actor = actor_of(request)
    require(actor, "cluster.view")
    now = now_ms()
    standings = sharing.standings(now)
    seen = actor.sees
    own = {
        gpu_type: [each for each in of_type.teams if seen is None or each.quota.team in seen]
        for gpu_type, of_type in standings.items()
    }
    chosen = _chosen(request, own)
    of_type = standings.get(chosen.gpu_type, NOBODY)
    teams = own.get(chosen.gpu_type, [])
    shown = next((each for each in teams if each.quota.team == chosen.team), None)
    context = {
        "chosen": chosen,
        "types": tuple(standings),
        "periods": {name: words for name, (_, _, words) in PERIODS.items()},
        "period": PERIODS[chosen.period][2],
        "half_life_days": HALF_LIFE_MS // DAY_MS,
        "rows": _rows(of_type, teams),
        "others": _sum([each for each in of_type.teams if each not in teams]),
        "all": _sum(of_type.teams),
        "capacity": nodes.slots_by_type().get(chosen.gpu_type, 0),
        "answer": _answer(shown) if shown else None,
        "charts": (lambda: _charts(chosen, now)) if shown else [],
    }
    return fragments.render(request, "teams/shares.html", context)


def _chosen(request: HttpRequest, own: dict[str, list[Standing]]) -> Chosen:
    asked = request.GET
    with_teams = [gpu_type for gpu_type, teams in own.items() if teams]
    gpu_type = asked.get("gpu_type", "")
    if gpu_type not in own:
        gpu_type = next(iter(with_teams or own), "")
    teams = [each.quota.team for each in own.get(gpu_type, [])]
    team = asked.get("team", "")
    return Chosen(
        gpu_type,
        asked.get("period", "") if asked.get("period", "") in PERIODS else "day",
        team if team in teams else next(iter(teams), ""),
    )


def _rows(of_type: Standings, own: Sequence[Standing]) -> list[dict[str, Any]]:
    """These teams below the departments that they are in, whose sums are of all their teams."""
    above = {name for each in own for name in each.branch.way[:-1]}
    departments = [
        _sum([each for each in of_type.teams if name in each.branch.way])
        | _branch(of_type.departments[name])
        | {"department": True, "label": of_type.names[name], "key": name}
        for name in above
    ]
    # Departments before the teams beside them, each by name.
    return sorted(
        [*departments, *(_row(each) for each in own)],
        key=lambda row: [(name not in above, of_type.names.get(name, name), name) for name in row["way"]],
    )


def _branch(branch: Branch) -> dict[str, Any]:
    return {
        "way": branch.way,
        "depth": min(len(branch.way) - 1, DEEPEST),
        "weight": f"{branch.weight:g}",
        "percent": f"{100 * branch.part:.3g} %",
        "usage_share": f"{branch.usage_share:.2f} ×",
    }


def _row(standing: Standing) -> dict[str, Any]:
    quota, share = standing.quota, standing.share
    return _branch(standing.branch) | {
        "label": quota.team,
        "key": quota.team,
        "guaranteed": quota.guaranteed,
        "maximum": quota.maximum,
        "deserved": share.deserved,
        "held": quota.used,
        "borrowed": share.borrowed,
        "lent": share.lent,
        "counts": f"{quota.usage_share:.2f} ×" if len(standing.branch.way) > 1 else "",
        "recent_gpu_ms": standing.recent_gpu_ms,
    }


def _sum(standings: Sequence[Standing]) -> dict[str, Any]:
    rows = [_row(each) for each in standings]
    return {"teams": len(rows), **{name: sum(row[name] for row in rows) for name in _SUMMED}}


def _answer(standing: Standing) -> dict[str, str]:
    quota, share = standing.quota, standing.share
    team, held, guaranteed = quota.team, quota.used, quota.guaranteed
    if share.borrowed:
        head = f"{team} holds {held}: {guaranteed} of its own and {share.borrowed} borrowed"
        told = "Preemptible jobs on borrowed slots give way when their owner asks for them."
        return {"tone": "run", "head": head, "told": told}
    if share.lent:
        head = f"{team} holds {held} of its {guaranteed}; others use {share.lent} of the rest"
        told = "It has them back as soon as it asks: preemptible jobs of the borrowers save and stop."
        return {"tone": "wait", "head": head, "told": told}
    head = f"{team} holds {held} of its {guaranteed}" if guaranteed else f"{team} is guaranteed nothing here"
    told = f"It may hold up to {quota.maximum} in all while others leave them free."
    if quota.maximum == guaranteed:
        told = "Its guarantee is also the most that it may hold."
    return {"tone": "ok" if held else "off", "head": head, "told": told}


def _charts(chosen: Chosen, now: int) -> list[dict[str, Any]]:
    length_ms, points, _ = PERIODS[chosen.period]
    span = (now - length_ms, now)
    past = sharing.history(chosen.team, chosen.gpu_type, *span, points)
    past["its_share"] = [1.0 for _ in past["at_ms"]]
    return [
        {"id": f"chart-{key}", "title": title, "data": _chart(past, span, unit, series)}
        for key, title, unit, series in _CHARTS
    ]


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
