"""The page of what has ended."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from platform_core.distribution.history import by_model
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.deployments import history
from webapp.deployments.history import Question
from webapp.live.identity import now_ms

SHOWN = 50


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
        "deployments": history.lines(found)[:SHOWN],
        "total": len(found),
        "most": history.MOST,
    }
    return render(request, "deployment_history.html", context)
