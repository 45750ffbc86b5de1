"""The queue: in which order, why, until when; and what the last rounds did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from webapp.pages.figures import Figure
from webapp.pages.queue import forecasts, panels
from webapp.pages.wording import slot_noun
from webapp.quotas import queries as quotas
from webapp.scheduling import queries, situation
from webapp.scheduling import what_if as questions
from webapp.scheduling.queue import QueueEntry
from webapp.scheduling.queue import entries as queue_entries

if TYPE_CHECKING:
    from webapp.scheduling.models import Round, WhatIf

MOST = 200
ROUNDS_SHOWN = 10
RECEIPTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Fragment: list. Every pending job is listed; jobs of other teams without their names."""

    headline: str  # "3 jobs pending", or "Queue is empty"
    sentence: str  # "They need 12 slots; 2 are free on 1 node."
    figures: list[Figure]
    entries: list[QueueEntry]  # in order
    more: int  # entries that are not shown
    windows: Sequence[Any]  # booked maintenance that is not over
    rounds: list[Round]  # the newest that changed something
    receipts: list[dict[str, Any]]  # running jobs that were stopped for others: panels.receipts


@login_required
@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    demand = jobs.demand(jobs.in_queue_order(jobs.visible(None)))  # of all, however few are shown
    nodes = clusters.snapshot_nodes()
    free = fragmentation(nodes)
    noun = slot_noun(node.gpu_type for node in nodes)
    page = QueuePage(
        headline=f"{plural(demand.jobs, 'job')} pending" if demand.jobs else "Queue is empty",
        sentence=_sentence(demand, free, noun),
        figures=_figures(demand, free, calibration(list(queries.judged().values())), noun),
        entries=queue_entries(actor, MOST),
        more=max(0, demand.jobs - MOST),
        windows=clusters.maintenance(),
        rounds=queries.newest_rounds(ROUNDS_SHOWN),
        receipts=panels.receipts(queries.newest_receipts(RECEIPTS_SHOWN), actor),
    )
    return fragments.render(request, "queue/queue.html", page)


def _sentence(demand: jobs.Demand, free: Sequence[Fragmentation], noun: str) -> str:
    """ "It needs 4 GPUs; 2 are free on 1 node."."""
    slots, nodes = sum(kind.free for kind in free), sum(kind.free_nodes for kind in free)
    on = f" on {plural(nodes, 'node')}" if slots else ""
    if not demand.jobs:
        return f"{plural(slots, f'free {noun}')}{on}." if slots else f"No {noun} is free."
    needs = "It needs" if demand.jobs == 1 else "They need"
    return f"{needs} {plural(demand.slots, noun)}; {are(slots, 'free')}{on}."


def _figures(
    demand: jobs.Demand, free: Sequence[Fragmentation], judged: Calibration, noun: str
) -> list[Figure]:
    slots, broken = sum(kind.free for kind in free), sum(kind.broken for kind in free)
    longest = demand.oldest_ms
    missed = format_duration_ms(judged.median_miss_ms)
    starts = f"of {plural(judged.starts, 'start')}" if judged.starts else "no start yet"
    return [
        Figure(
            "Longest wait",
            "–" if longest is None else format_duration_ms((now_ms() - longest) // 1000 * 1000),
            "since submission or preemption",
        ),
        Figure(
            f"Free {noun}s",
            str(slots),
            f"{plural(sum(kind.whole_nodes for kind in free), 'node')} entirely free",
        ),
        Figure(
            "Fragmentation",
            f"{100 * broken / slots:.0f} %" if slots else "–",
            f"of {plural(slots, f'free {noun}')}, on nodes partly in use",
        ),
        Figure(
            "Accurate forecasts",
            forecasts.share(judged.within, judged.starts),
            f"{starts}; median miss {missed}" if judged.within < judged.starts else starts,
        ),
    ]


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
    messages.success(
        request, f"{job.name} has priority {job.priority}; it takes effect in the next scheduling round."
    )
    return redirect("queue:queue")


@dataclass(frozen=True, slots=True)
class WhatIfPage:
    """Fragment: answer. Query: asked, the number of one of the reader's questions; without it the newest."""

    types: tuple[str, ...]
    orders: list[str]
    teams: list[dict[str, Any]]  # team, guaranteed and maximum; "" leaves a quota as it is
    given: dict[str, Any]  # the settings last asked for, else those of the scheduler
    asked: WhatIf | None
    lines: list[dict[str, str]]  # label, before, after
    charts: list[dict[str, Any]]  # id, title, data: JSON of static/js/chart-data.js


@login_required
@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest) -> HttpResponse:
    """Numbers of all teams together, which everybody may see; no job is named."""
    user_id = int(request.user.pk or 0)
    if request.method == "POST":
        row = questions.ask(user_id, questions.read(request.POST.dict()))
        return redirect(f"{reverse('queue:what-if')}?asked={row.pk}")
    asked = request.GET.get("asked", "")
    question = questions.of_user(user_id, int(asked) if asked.isdecimal() and len(asked) < 10 else None)
    types = quotas.gpu_types()
    policy = situation.policy()
    given = question.question if question else {}
    page = WhatIfPage(
        types=types,
        orders=sorted(ORDERS),
        teams=[
            {
                "team": team,
                "maximum": given.get("maximum", {}).get(team, ""),
                "guaranteed": given.get("guaranteed", {}).get(team, ""),
            }
            for team in sorted({team for team, _ in quotas.guarantees()})
        ],
        given=given or {**asdict(policy), "preemption": policy.evicts, "more_nodes": 0},
        asked=question,
        lines=_compared(question) if question and question.answer else [],
        charts=_courses(question) if question and question.answer else [],
    )
    return fragments.render(request, "queue/what_if.html", page)


_LINES = (
    ("Finished jobs", "jobs", "count"),
    ("Jobs that cannot start", "never_started", "count"),
    ("Mean wait", "mean_queue_s", "seconds"),
    ("p99 wait", "p99_queue_s", "seconds"),
    ("Mean job completion time", "mean_jct_s", "seconds"),
    ("Allocation", "utilisation", "share"),
    ("Preemptions", "preemptions", "count"),
)


def _compared(question: WhatIf) -> list[dict[str, str]]:
    answer = question.answer or {}
    return [
        {"label": label, **{side: _shown(answer[side][key], unit) for side in ("before", "after")}}
        for label, key, unit in _LINES
    ]


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "seconds":
        return format_duration_ms(round(value * 1000))
    return f"{100 * value:.0f} %" if unit == "share" else f"{value:,.0f}"


def _courses(question: WhatIf) -> list[dict[str, Any]]:
    answer = question.answer or {}
    return [
        {"id": f"chart-{key}", "title": title, "data": _chart(answer, key, title)}
        for key, title in (("waiting", "Pending jobs"), ("held", "Slots in use"))
    ]


def _chart(answer: dict[str, Any], key: str, title: str) -> dict[str, Any]:
    series = []
    for name, side in (("current settings", "before"), ("changed settings", "after")):
        x, y = _steps(answer[side]["course"]["at_ms"], answer[side]["course"][key])
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
