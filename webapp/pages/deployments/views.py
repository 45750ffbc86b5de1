"""The pages of deployments: the list, one deployment node by node, and what is past."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from platform_core.distribution.deployments.deployment import ACTIVE, DeploymentState, WorkerState
from platform_core.distribution.deployments.history import by_model
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.identity import now_ms
from webapp.deployments import queries
from webapp.events.models import Event
from webapp.events.queries import story
from webapp.pages import fragments
from webapp.pages.deployments import history, movement, presentation, rollout, topology
from webapp.pages.deployments.history import Question
from webapp.pages.paging import Pager, paged

PAGE = 50
WORKERS_SHOWN = 50
EVENTS_SHOWN = 100
# Of so many nodes that these would hide all else; the table and the waterfall say the same.
ROUTINE = ("WorkerReceiving", "WorkerComplete", "VersionActivated", "VersionReturned")
PAST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class DeploymentListPage:
    subjects: str  # of the live socket: "deployments:vision"
    deployments: list[dict[str, Any]]  # those that run first; see presentation.line
    pager: Pager


@dataclass(frozen=True, slots=True)
class DeploymentPage:
    """One deployment. What has data-value in the template is updated by the socket: see numbers.py."""

    deployment: dict[str, Any]  # see presentation.head
    answer: Callable[[], dict[str, str]]  # tone, headline, detail
    decision: Callable[[], dict[str, str] | None]
    rollout: Callable[[], dict[str, Any] | None]  # None: it only copies; see rollout.panel
    phases: Callable[[], list[dict[str, Any]]]  # of one that is not complete
    kpis: Callable[[], list[dict[str, Any]]]
    workers: Callable[[], list[dict[str, Any]]]  # slowest first; see presentation.worker_lines
    workers_total: int
    topology: Callable[[], dict[str, Any]]  # see topology.drawing
    waterfall: Callable[[], list[dict[str, Any]]]  # of one that has ended, the last node first
    ended: int  # nodes that are ready or failed
    events: Callable[[], list[Event]]  # newest first
    more_events: Callable[[], bool]
    may: dict[str, bool]  # cancel, retry, pin; refetch: nothing failed, some nodes evicted it


@login_required
@require_GET
def deployment_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    matching = queries.visible(actor.sees)
    if state := request.GET.get("state", ""):
        matching = matching.filter(state__in=list(ACTIVE) if state == "active" else [state])
    shown, pager = paged(request, matching, PAGE)
    progress = queries.progress_of_all([row.id for row in shown])
    lines = sorted(
        (presentation.line(row, progress[row.id]) for row in shown),
        key=lambda line: line["state"] not in ACTIVE,
    )
    listing = DeploymentListPage(
        subjects=" ".join(f"deployments:{view.slug}" for view in team_views(actor.sees)),
        deployments=lines,
        pager=pager,
    )
    return fragments.render(request, "deployments/list.html", listing)


@login_required
@require_GET
def detail(request: HttpRequest, deployment_id: str) -> HttpResponse:
    row = queries.seen_by(actor_of(request), deployment_id)
    actor = actor_of(request)
    now = now_ms()
    workers = queries.workers(row.id)
    most = None if request.GET.get("all") == "1" else WORKERS_SHOWN
    owner = row.user.username
    states = {worker.state for worker in workers}
    routine = ROUTINE if len(workers) > WORKERS_SHOWN else ()
    newest_first = cache(lambda: story(f"deployment:{row.id}", EVENTS_SHOWN + 1, routine)[::-1])
    panel = cache(lambda: rollout.panel(row, actor, now))
    page = DeploymentPage(
        deployment=presentation.head(row, workers),
        answer=lambda: presentation.answer(row, workers, now),
        decision=lambda: _decision(panel()),
        rollout=panel,
        phases=lambda: [] if row.state == DeploymentState.COMPLETE else presentation.phases(row, workers),
        kpis=lambda: presentation.kpis(row, workers, now),
        workers=lambda: presentation.worker_lines(row, workers, now, most),
        workers_total=len(workers),
        topology=lambda: topology.drawing(workers),
        waterfall=lambda: movement.waterfall(row, workers) if row.state not in ACTIVE else [],
        ended=sum(worker.finished_ms is not None for worker in workers),
        events=lambda: newest_first()[:EVENTS_SHOWN],
        more_events=lambda: bool(routine) or len(newest_first()) > EVENTS_SHOWN,
        may={
            "cancel": row.state in ACTIVE and permissions.may(actor, "deployment.cancel", row.team_id, owner),
            "retry": bool(states & {WorkerState.FAILED, WorkerState.EVICTED})
            and permissions.may(actor, "deployment.create", row.team_id),
            "refetch": WorkerState.FAILED not in states,
            "pin": row.state != DeploymentState.CANCELLED
            and permissions.may(actor, "deployment.create", row.team_id),
        },
    )
    return fragments.render(request, "deployments/detail.html", page)


def _decision(panel: dict[str, Any] | None) -> dict[str, str] | None:
    """What the rollout waits for a person to decide, to stand at the top of the page."""
    return panel["answer"] if panel is not None and panel["may"]["promote"] else None


@login_required
@require_GET
def chunks(request: HttpRequest, deployment_id: str) -> JsonResponse:
    """For the heat map: which node has which chunk."""
    row = queries.seen_by(actor_of(request), deployment_id)
    return JsonResponse(movement.chunk_map(row, queries.workers(row.id)))


@login_required
@require_GET
def past(request: HttpRequest) -> HttpResponse:
    actor, given = actor_of(request), request.GET
    days = given.get("days", "")
    known = days.isdecimal() and int(days) in history.PERIODS
    question = Question(
        given.get("team", ""), given.get("model", ""), int(days) if known else Question().days
    )
    ended = history.records(actor.sees, question, now_ms())
    models = history.models(actor.sees)
    context = {
        "filters": {"team": question.team, "model": question.model, "days": question.days},
        "filtered": bool(models),
        "models": models,
        "teams": [view.slug for view in team_views(actor.sees)],
        "periods": history.PERIODS,
        "kpis": history.kpis(ended),
        "charts": history.charts(ended),
        "by_model": by_model(ended),
        "deployments": history.lines(ended)[:PAST_SHOWN],
        "total": len(ended),
        "most": history.MOST,
    }
    return render(request, "deployments/history.html", context)
