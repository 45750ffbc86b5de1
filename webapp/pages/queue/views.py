"""The queue: in which order, why, until when; and what the last rounds did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.scheduling.forecast.calibration import Calibration, calibration
from platform_core.scheduling.metrics.fragmentation import Fragmentation, fragmentation
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.wording import are
from platform_core.units import format_duration_ms, plural
from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.jobs import services
from webapp.nodes import queries as clusters
from webapp.pages import fragments
from webapp.pages.queue import forecasts, panels
from webapp.quotas import queries as quotas
from webapp.scheduling import queries, situation
from webapp.scheduling import what_if as questions
from webapp.scheduling.queue import QueueEntry
from webapp.scheduling.queue import entries as queue_entries

if TYPE_CHECKING:
    from webapp.scheduling.models import WhatIf

MOST = 200
ROUNDS_SHOWN = 10
RECEIPTS_SHOWN = 20


@login_required
@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """Every waiting job has its line, because every one is in the order; names are told to those who may see them."""
    actor = actor_of(request)
    demand = jobs.demand(jobs.in_queue_order(jobs.visible(None)))  # of all, however few are shown
    free = fragmentation(clusters.snapshot_nodes())
    context = {
        "sentence": _sentence(demand, free),
        "kpis": _kpis(demand, free, calibration(list(queries.judged().values()))),
        "jobs": [_line(entry) for entry in queue_entries(actor, MOST)],
        "more": max(0, demand.jobs - MOST),
        "windows": clusters.maintenance(),
        "rounds": queries.newest_rounds(ROUNDS_SHOWN),
        "receipts": panels.receipts(queries.newest_receipts(RECEIPTS_SHOWN), actor),
    }
    return fragments.render(request, "queue/queue.html", context)


def _sentence(demand: jobs.Demand, free: Sequence[Fragmentation]) -> str:
    slots, nodes = sum(each.free for each in free), sum(each.free_nodes for each in free)
    on = f" on {plural(nodes, 'node')}" if slots else ""
    if not demand.jobs:
        return f"Nobody waits; {are(slots, 'free')}{on}."
    wait = f"{plural(demand.jobs, 'job')} {'wait' if demand.jobs != 1 else 'waits'}"
    return f"{wait} for {plural(demand.slots, 'slot')}; {are(slots, 'free')}{on}."


def _kpis(demand: jobs.Demand, free: Sequence[Fragmentation], judged: Calibration) -> list[dict[str, Any]]:
    now = now_ms()
    slots, broken = sum(each.free for each in free), sum(each.broken for each in free)
    longest = demand.oldest_ms
    missed = format_duration_ms(judged.median_miss_ms)
    return [
        {"label": "Waiting", "value": f"{demand.jobs:,}", "note": plural(demand.slots, "slot")},
        {
            "label": "Waits longest",
            "value": "–" if longest is None else format_duration_ms((now - longest) // 1000 * 1000),
            "note": "since it was submitted or stopped",
        },
        {
            "label": "Free slots",
            "value": str(slots),
            "note": f"{plural(sum(each.whole_nodes for each in free), 'node')} whole",
        },
        {
            "label": "Fragmentation",
            "value": f"{100 * broken / slots:.0f} %" if slots else "–",
            "note": f"of {plural(slots, 'free slot')}, on nodes in part in use",
        },
        {
            "label": "Forecasts that held",
            "value": forecasts.share(judged.within, judged.starts),
            "note": f"of {plural(judged.starts, 'start')}; half of the misses within {missed}"
            if judged.within < judged.starts
            else f"of {plural(judged.starts, 'start')}"
            if judged.starts
            else "no start yet",
        },
    ]


def _line(entry: QueueEntry) -> dict[str, Any]:
    return asdict(entry) | {
        "number": entry.position,
        "id": entry.job_id,
        "kept": entry.reserved,
        "kept_on": entry.reserved_on,
        "starts": entry.expected_start,
        "why": entry.reason,
    }


@login_required
@require_POST
def change_priority(request: HttpRequest, job_id: str) -> HttpResponse:
    given = request.POST.get("priority", "").strip()
    if not given.isdecimal() or len(given) > 9:
        why = "it must be a whole number from 0, the most urgent, to 100"
        raise TrainmasterError("request_invalid", what=f"priority {given!r}", why=why)
    actor, job = actor_of(request), jobs.find(job_id)
    if job is None or not may(actor, "job.view", job.team_id):
        raise TrainmasterError("not_found", what=f"job {job_id}")
    job = services.change_priority(actor, job_id, int(given))
    messages.success(request, f"{job.name} has priority {job.priority}; it counts from the next round on.")
    return redirect("queue:queue")


@login_required
@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest) -> HttpResponse:
    """Numbers of all teams together, which everybody may see; no job is named."""
    user_id = int(request.user.pk or 0)
    if request.method == "POST":
        row = questions.ask(user_id, questions.read(request.POST.dict()))
        return redirect(f"{reverse('queue:what-if')}?asked={row.pk}")
    asked = request.GET.get("asked", "")
    found = questions.of_user(user_id, int(asked) if asked.isdecimal() and len(asked) < 10 else None)
    types = quotas.gpu_types()
    policy = situation.policy()
    given = found.question if found else {}
    context = {
        "types": types,
        "orders": sorted(ORDERS),
        "teams": [
            {
                "team": team,
                "maximum": given.get("maximum", {}).get(team, ""),
                "guaranteed": given.get("guaranteed", {}).get(team, ""),
            }
            for team in sorted({team for team, _ in quotas.guarantees()})
        ],
        "given": given or {**asdict(policy), "preemption": policy.evicts, "more_nodes": 0},
        "asked": found,
        "lines": _compared(found) if found and found.answer else [],
        "charts": _courses(found) if found and found.answer else [],
    }
    return fragments.render(request, "queue/what_if.html", context)


_LINES = (
    ("Jobs that ran to their end", "jobs", "count"),
    ("Jobs that could never start", "never_started", "count"),
    ("Mean wait", "mean_queue_s", "seconds"),
    ("99 of 100 waited at most", "p99_queue_s", "seconds"),
    ("Mean from submission to end", "mean_jct_s", "seconds"),
    ("Slots held, while jobs came", "utilisation", "share"),
    ("Jobs stopped for others", "preemptions", "count"),
)


def _compared(found: WhatIf) -> list[dict[str, str]]:
    told = found.answer or {}
    return [
        {"label": label, **{side: _shown(told[side][key], unit) for side in ("before", "after")}}
        for label, key, unit in _LINES
    ]


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "seconds":
        return format_duration_ms(round(value * 1000))
    return f"{100 * value:.0f} %" if unit == "share" else f"{value:,.0f}"


def _courses(found: WhatIf) -> list[dict[str, Any]]:
    told = found.answer or {}
    return [
        {"id": f"chart-{key}", "title": title, "data": _chart(told, key, title)}
        for key, title in (("waiting", "Jobs waiting"), ("held", "Slots held"))
    ]


def _chart(told: dict[str, Any], key: str, title: str) -> dict[str, Any]:
    series = []
    for name, side in (("as it was set", "before"), ("as asked", "after")):
        x, y = _steps(told[side]["course"]["at_ms"], told[side]["course"][key])
        series.append({"name": name, "key": side, "subject": "", "x": x, "y": y, "raw": y})
    return {
        "x": {"kind": "time", "title": "time"}, "y": {"title": title.lower(), "min": 0}, "smooth": 0,
        "series": series, "marks": [],
    }  # fmt: skip


def _steps(at_ms: Sequence[int], values: Sequence[int]) -> tuple[list[int], list[int]]:
    """A value holds until the next one: it is drawn level, not as a slope."""
    x = [at for at in at_ms for _ in range(2)][1:]
    y = [value for value in values for _ in range(2)][:-1]
    return x, y
