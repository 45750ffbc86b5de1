"""The pages of deployments: the list, one deployment node by node, and what is past."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from platform_core.distribution.deployment import ACTIVE, DeploymentState, WorkerState
from platform_core.distribution.history import by_model
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.deployments import queries
from webapp.deployments.pages import history, movement, presentation, rollout, topology
from webapp.deployments.pages.history import Question
from webapp.live import fragments
from webapp.live.identity import now_ms
from webapp.live.queries import story

PAGE = 50
WORKERS_SHOWN = 50
PAST_SHOWN = 50


@login_required
@require_GET
def deployment_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    found = queries.visible(actor.sees)
    if state := request.GET.get("state", ""):
        found = found.filter(state__in=list(ACTIVE) if state == "active" else [state])
    page = Paginator(found, PAGE).get_page(request.GET.get("after") or request.GET.get("before") or "1")
    now = now_ms()
    lines = sorted(
        (presentation.line(row, now) for row in page), key=lambda line: line["state"] not in ACTIVE
    )
    context = {
        "subjects": " ".join(f"deployments:{view.slug}" for view in team_views(actor.sees)),
        "deployments": lines,
        "pager": {
            "next": page.next_page_number() if page.has_next() else "",
            "previous": page.previous_page_number() if page.has_previous() else "",
        },
    }
    return fragments.render(request, "deployments.html", context)


@login_required
@require_GET
def detail(request: HttpRequest, deployment_id: str) -> HttpResponse:
    row = queries.seen_by(actor_of(request), deployment_id)
    actor = actor_of(request)
    now = now_ms()
    workers = queries.workers(row.id)
    lines = presentation.worker_lines(row, workers, now)
    shown = lines if request.GET.get("all") == "1" else lines[:WORKERS_SHOWN]
    owner = row.user.username
    states = {worker.state for worker in workers}
    context: dict[str, Any] = {
        "rollout": rollout.panel(row, actor, now),
        "deployment": presentation.head(row, workers),
        "answer": presentation.answer(row, workers, now),
        "phases": presentation.phases(row, workers),
        "kpis": presentation.kpis(row, workers, now),
        "workers": shown,
        "workers_total": len(lines),
        "topology": topology.drawing(workers),
        "waterfall": movement.waterfall(row, workers) if row.state not in ACTIVE else [],
        "events": story(f"deployment:{row.id}")[::-1],
        "may": {
            "cancel": row.state in ACTIVE and permissions.may(actor, "deployment.cancel", row.team_id, owner),
            "retry": bool(states & {WorkerState.FAILED, WorkerState.EVICTED})
            and permissions.may(actor, "deployment.create", row.team_id),
            "refetch": WorkerState.FAILED not in states,
            "pin": row.state != DeploymentState.CANCELLED
            and permissions.may(actor, "deployment.create", row.team_id),
        },
    }
    return fragments.render(request, "deployment.html", context)


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
    found = history.records(actor.sees, question, now_ms())
    models = history.models(actor.sees)
    context = {
        "filters": {"team": question.team, "model": question.model, "days": question.days},
        "filtered": bool(models),
        "models": models,
        "teams": [view.slug for view in team_views(actor.sees)],
        "periods": history.PERIODS,
        "kpis": history.kpis(found),
        "charts": history.charts(found),
        "by_model": by_model(found),
        "deployments": history.lines(found)[:PAST_SHOWN],
        "total": len(found),
        "most": history.MOST,
    }
    return render(request, "deployment_history.html", context)
