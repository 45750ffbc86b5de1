"""The pages of experiments: the list, one experiment's runs, and the comparison of any runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.identity import now_ms
from webapp.experiments import queries
from webapp.experiments.curves import MOST_RUNS
from webapp.experiments.models import Experiment, Run
from webapp.experiments.standings import Standing, standings
from webapp.pages import fragments
from webapp.pages.experiments import charts
from webapp.pages.experiments import compare as comparing
from webapp.pages.paging import Pager, paged
from webapp.quotas import queries as quotas
from webapp.quotas.queries import JobCost

PAGE = 30
MOST_TAGS = 6


@dataclass(frozen=True, slots=True)
class ExperimentListPage:
    subjects: str  # of the live socket: "jobs:vision"
    filters: dict[str, str]  # q, team as given
    filtered: bool
    teams: list[str]
    experiments: list[dict[str, Any]]  # see _line
    pager: Pager
    may_create: list[str]  # teams


@login_required
@require_GET
def experiment_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    filters = {name: request.GET.get(name, "") for name in ("q", "team", "view")}
    matching = queries.listed(actor.sees, filters["view"])
    if filters["q"]:
        matching = matching.filter(name__icontains=filters["q"])
    if filters["team"]:
        matching = matching.filter(team=filters["team"])
    shown, pager = paged(request, matching, PAGE)
    teams = [view.slug for view in team_views(actor.sees)]
    listing = ExperimentListPage(
        subjects=" ".join(f"jobs:{slug}" for slug in teams),
        filters=filters,
        filtered=any(filters.values()),
        teams=teams,
        experiments=_lines(shown),
        pager=pager,
        may_create=[slug for slug in teams if permissions.may(actor, "experiment.edit", slug)],
    )
    return fragments.render(request, "experiments/list.html", listing)


def _lines(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    known = standings(experiments)
    costs = quotas.costs_of_jobs([job for standing in known.values() for job in standing.jobs], now_ms())
    return [_line(experiment, known[experiment.pk], costs) for experiment in experiments]


def _line(experiment: Experiment, standing: Standing, all_costs: Mapping[str, JobCost]) -> dict[str, Any]:
    costs = [all_costs[job] for job in standing.jobs if job in all_costs]
    return {
        "id": experiment.id,
        "name": experiment.name,
        "team": experiment.team_id,
        "standing": standing,
        "micro_dollars": sum(cost.micro_dollars for cost in costs),
        "gpu_ms": sum(cost.gpu_ms for cost in costs),
        "tags": standing.tags[:MOST_TAGS],
    }


@login_required
@require_http_methods(["GET", "POST"])
def compare(request: HttpRequest) -> HttpResponse:
    """The form of the run table posts the chosen runs: their page has an address without its token."""
    if request.method == "POST":
        query = urlencode({"runs": ",".join(request.POST.getlist("runs"))}, safe=",")
        return redirect(f"{request.path}?{query}")
    runs = _runs_asked_for(request)
    page = comparing.page(runs, request.GET, now_ms())
    if request.GET.get("format") == "csv":
        headers = {"Content-Disposition": 'attachment; filename="comparison.csv"'}
        return HttpResponse(comparing.as_csv(page), content_type="text/csv; charset=utf-8", headers=headers)
    return fragments.render(request, "experiments/compare.html", page)


@login_required
@require_GET
def curves(request: HttpRequest) -> HttpResponse:
    """The values of charts, see static/js/chart-data.js."""
    return charts.answer(request, _runs_asked_for(request))


def _runs_asked_for(request: HttpRequest) -> list[Run]:
    actor = actor_of(request)
    ids = [run_id for value in request.GET.getlist("runs") for run_id in value.split(",") if run_id]
    runs = [
        run
        for run in queries.chosen(ids[:MOST_RUNS])
        if permissions.may(actor, "experiment.view", run.experiment.team_id)
    ]
    if ids and not runs:
        raise TrainmasterError("not_found", sentence="There are no such runs, or you may not see them")
    return runs
