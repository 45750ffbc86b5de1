"""The quota and cost panels of the team page. Each is worked out only when the page asks for it."""

from functools import cache
from typing import Any

from platform_core.units import DAY_MS, HOUR_MS, format_micro_dollars, plural
from webapp.accounts.permissions import Actor, may
from webapp.base.identity import now_ms
from webapp.events import queries as events
from webapp.jobs import queries as jobs
from webapp.quotas import queries
from webapp.quotas.queries import QuotaView

PERIOD_DAYS = 30
PERIOD_WORDS = f"last {PERIOD_DAYS} days"
JOBS_SHOWN = 20
MOST_STEPS = 1_000  # a plot shows no more than this; what is between is drawn at its highest

Steps = tuple[tuple[int, int], ...]


def of_team(actor: Actor, team: str) -> dict[str, Any]:
    now = now_ms()
    since = now - PERIOD_DAYS * DAY_MS
    # Who may not change a guarantee needs no notice about all of them.
    quotas = cache(lambda: queries.quotas(team, with_notices=may(actor, "quota.edit", team)))
    members = cache(lambda: queries.costs_by_member(team, since, now))
    limits = cache(lambda: _limits(team, quotas()))
    return {
        "limits": limits,
        "kpis": lambda: _kpis(limits(), members()),
        "period": PERIOD_WORDS,
        "use": lambda: use_chart(team, since, now),
        "costs_members": members,
        "costs_jobs": lambda: _jobs(team, since, now),
    }


def _limits(team: str, quotas: tuple[QuotaView, ...]) -> list[dict[str, Any]]:
    queued = jobs.queued_by_type(team)
    return [_limit(quota, queued.get(quota.gpu_type, 0)) for quota in quotas]


def _limit(quota: QuotaView, queued: int) -> dict[str, Any]:
    if quota.held > quota.maximum:
        word = (
            f"{quota.held - quota.maximum} over its maximum since it was lowered, they are freed as jobs end"
        )
    elif quota.held + queued > quota.maximum:
        word = f"{quota.held + queued - quota.maximum} of {queued} queued wait for the quota"
    elif quota.borrowed:
        word = f"{quota.borrowed} of them borrowed"
    else:
        word = f"{quota.maximum - quota.held} left"
    in_use = f"{quota.held} of {plural(quota.maximum, quota.gpu_type + ' slot')} in use, {word}."
    return {
        "gpu_type": quota.gpu_type,
        "guaranteed": quota.guaranteed,
        "maximum": quota.maximum,
        "queue_beyond": quota.queue_beyond,
        "version": quota.version,
        "held": quota.held,
        "queued": queued,
        "borrowed": quota.borrowed,
        "percent": 100 * quota.held / quota.maximum if quota.maximum else 0,
        "price_hour": quota.price_hour,
        "sentence": f"{in_use} {quota.notice}".strip(),
    }


def _kpis(limits: list[dict[str, Any]], members: tuple[queries.MemberCost, ...]) -> list[dict[str, Any]]:
    held = sum(one["held"] for one in limits)
    maximum = sum(one["maximum"] for one in limits)
    rate = sum(one["held"] * one["price_hour"] for one in limits)
    hours = sum(member.gpu_ms for member in members) / HOUR_MS
    return [
        {"label": "In use", "value": f"{held} of {maximum}", "note": f"{format_micro_dollars(rate)} an hour"},
        {
            "label": "Queued",
            "value": f"{sum(one['queued'] for one in limits)}",
            "note": "slots that jobs wait for",
        },
        {"label": "GPU-hours", "value": f"{hours:,.1f}", "note": PERIOD_WORDS},
        {
            "label": "Cost",
            "value": format_micro_dollars(sum(member.micro_dollars for member in members)),
            "note": PERIOD_WORDS,
        },
    ]


def _jobs(team: str, since: int, now: int) -> list[dict[str, Any]]:
    costs = queries.costs_by_job(team, since, now, JOBS_SHOWN)
    facts = jobs.facts(cost.id for cost in costs)
    return [
        {
            "id": cost.id,
            "name": facts[cost.id].name if cost.id in facts else cost.id,
            "state": facts[cost.id].state if cost.id in facts else "",
            "user": cost.user,
            "gpu_ms": cost.gpu_ms,
            "micro_dollars": cost.micro_dollars,
        }
        for cost in costs
    ]


def use_chart(team: str, since: int, now: int) -> dict[str, Any]:
    """As static/js/chart-data.js reads it: a stepped line for each slot type, a mark for each changed limit."""
    use = queries.use_over_time(team, since, now)
    changes = [
        event
        for event in events.of_team(team, ("quota",))
        if event.kind == "QuotaChanged" and event.at_ms >= since
    ]
    return {
        "x": {"kind": "time", "title": "time"},
        "y": {"title": "slots", "min": 0},
        "series": [_line(gpu_type, thin(steps, since, now), now) for gpu_type, steps in use.items()],
        "marks": [{"x": event.at_ms, "text": _mark(event.data)} for event in reversed(changes)],
    }


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
    before, after = data.get("before"), data.get("after") or {}
    was = f"{before['maximum']} → " if before else ""
    return f"{data.get('gpu_type')}: {was}{after.get('maximum')}"
