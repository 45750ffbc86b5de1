"""The pages of sweeps: the list, and one sweep with its trials, live."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from platform_core.experiments.settings_table import LEAST_RUNS
from platform_core.sweeps.definition import Budget
from platform_core.sweeps.states import Sweep as SweepValue
from platform_core.sweeps.states import Trial, TrialState
from platform_core.sweeps.transitions import best
from platform_core.units import HOUR_MS, MICRO_DOLLARS, format_duration_ms, format_micro_dollars, plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.identity import now_ms
from webapp.checkpoints import queries as checkpoints
from webapp.experiments import importance as forests
from webapp.pages import fragments
from webapp.pages.experiments.compare_parameters import Importance, explained
from webapp.pages.figures import Figure
from webapp.pages.paging import Pager, paged
from webapp.pages.sweeps import charts
from webapp.quotas import queries as quotas
from webapp.quotas.queries import JobCost
from webapp.sweeps import queries, services
from webapp.sweeps.models import Sweep

PAGE = 30
BUDGET_FIELDS = (("trials", "Trials"), ("gpu_hours", "GPU-hours"), ("cost", "Cost ($)"), ("hours", "Hours"))


@dataclass(frozen=True, slots=True)
class SweepListPage:
    subjects: str  # of the live socket: "sweeps:vision"
    filters: dict[str, str]
    filtered: bool
    teams: list[str]
    sweeps: list[dict[str, Any]]  # see _line
    pager: Pager


@dataclass(frozen=True, slots=True)
class SweepPage:
    address: str
    sweep: Sweep
    method: str
    metric: str
    goal: str
    may_steer: bool
    kpis: list[Figure]
    best: Trial | None
    more_url: str  # the form for a job that resumes from the best trial's checkpoint; '' without one
    names: list[str]  # of the parameters
    trials: Callable[[], list[dict[str, Any]]]
    best_over_time: Callable[[], dict[str, Any]]
    best_over_gpu_hours: Callable[[], dict[str, Any]]
    cost_by_trial: Callable[[], dict[str, Any]]
    runs_jobs: bool
    curves: Callable[[], dict[str, Any]]
    parallel: Callable[[], dict[str, Any] | None]
    importance: Callable[[], Importance]
    budget: list[dict[str, Any]]  # name, label, value
    problem: str


@login_required
@require_GET
def sweep_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    filters = {name: request.GET.get(name, "") for name in ("q", "team")}
    matching = queries.visible(actor.sees)
    if filters["q"]:
        matching = matching.filter(name__icontains=filters["q"])
    if filters["team"]:
        matching = matching.filter(team=filters["team"])
    shown, pager = paged(request, matching, PAGE)
    teams = [view.slug for view in team_views(actor.sees)]
    page = SweepListPage(
        subjects=" ".join(f"sweeps:{slug}" for slug in teams),
        filters=filters,
        filtered=any(filters.values()),
        teams=teams,
        sweeps=[_line(row) for row in shown],
        pager=pager,
    )
    return fragments.render(request, "sweeps/list.html", page)


def _line(row: Any) -> dict[str, Any]:
    limit = row.spec["budget"]["trials"]
    return {
        "row": row,
        "metric": row.spec["objective"]["metric"],
        "method": row.spec["method"],
        "progress": f"{row.count} of {limit}" if limit else str(row.count),
        "best": queries.best_of(row),
    }


@login_required
@require_GET
def detail(request: HttpRequest, sweep_id: str) -> HttpResponse:
    return fragments.render(request, "sweeps/detail.html", _page(actor_of(request), sweep_id))


def _page(actor: Actor, sweep_id: str, problem: str = "") -> SweepPage:
    row = services.found(actor, sweep_id)
    sweep = queries.value(row)
    costs = quotas.costs_of_jobs([trial.job for trial in sweep.trials if trial.job], now_ms())
    winner = best(sweep)
    return SweepPage(
        address=reverse("sweeps:detail", args=[sweep_id]),
        sweep=row,
        method=sweep.spec.method,
        metric=sweep.spec.objective.metric,
        goal=sweep.spec.objective.goal,
        may_steer=permissions.may(actor, "sweep.steer", row.team_id, owner=row.user.username),
        kpis=_kpis(sweep, winner),
        best=winner,
        more_url=_more_url(winner),
        names=[dimension.name for dimension in sweep.spec.space],
        trials=lambda: _trials(sweep, costs, winner),
        best_over_time=lambda: charts.best_over_time(sweep),
        best_over_gpu_hours=lambda: charts.best_over_gpu_hours(sweep, costs),
        cost_by_trial=lambda: charts.cost_by_trial(sweep, costs),
        runs_jobs=sweep.spec.runs_jobs,
        curves=lambda: charts.curves(sweep),
        parallel=lambda: charts.parallel(sweep),
        importance=lambda: _importance(sweep),
        budget=_budget(sweep.spec.budget),
        problem=problem,
    )


def _kpis(sweep: SweepValue, winner: Trial | None) -> list[Figure]:
    limits = sweep.spec.budget
    states = [trial.state for trial in sweep.trials]
    ended_ms = sweep.ended_ms or now_ms()
    hours = f"of {limits.gpu_ms / HOUR_MS:g}" if limits.gpu_ms else ""
    cost = f"of ${limits.micro_dollars / MICRO_DOLLARS:.2f}" if limits.micro_dollars else ""
    wall = f"of {format_duration_ms(limits.wall_ms)}" if limits.wall_ms else ""
    return [
        Figure(
            f"Best {sweep.spec.objective.metric}",
            "–" if winner is None or winner.value is None else f"{winner.value:.5g}",
            f"trial {winner.number}" if winner else "no trial has succeeded yet",
        ),
        Figure("Trials", str(len(states)), f"of {limits.trials}" if limits.trials else "of the grid"),
        Figure("Running", str(sweep.active), f"at most {sweep.spec.parallel}"),
        Figure(
            "Pruned", str(states.count(TrialState.PRUNED)), plural(states.count(TrialState.FAILED), "failure")
        ),
        Figure("GPU-hours", f"{sweep.gpu_ms / HOUR_MS:.2f}", hours),
        Figure("Cost", format_micro_dollars(sweep.micro_dollars), cost),
        Figure("Time", format_duration_ms(max(0, ended_ms - sweep.created_ms)), wall),
    ]


def _trials(sweep: SweepValue, costs: Mapping[str, JobCost], winner: Trial | None) -> list[dict[str, Any]]:
    """Newest first."""
    return [
        {
            "trial": trial,
            "values": [dict(trial.parameters).get(dimension.name) for dimension in sweep.spec.space],
            "cost": costs.get(trial.job),
            "best": winner is not None and trial.number == winner.number,
        }
        for trial in reversed(sweep.trials)
    ]


def _importance(sweep: SweepValue) -> Importance:
    trials = charts.finished(sweep)
    if len(trials) < LEAST_RUNS:
        done = plural(len(trials), "trial")
        return Importance([], f"{done} succeeded; an importance needs at least {LEAST_RUNS}.")
    values = [trial.value for trial in trials]
    return explained(forests.importance(charts.parameter_axes(trials), values), "trials")


def _more_url(winner: Trial | None) -> str:
    if winner is None or not winner.job:
        return ""
    query = {"clone": winner.job}
    if newest := checkpoints.living(job=winner.job).order_by("-step").first():
        query["resume_from"] = newest.id
    return f"{reverse('jobs:submit')}?{urlencode(query)}"


def _budget(limits: Budget) -> list[dict[str, Any]]:
    values = {
        "trials": limits.trials,
        "gpu_hours": limits.gpu_ms / HOUR_MS,
        "cost": limits.micro_dollars / MICRO_DOLLARS,
        "hours": limits.wall_ms / HOUR_MS,
    }
    return [{"name": name, "label": label, "value": f"{values[name]:g}"} for name, label in BUDGET_FIELDS]


@login_required
@require_POST
def pause(request: HttpRequest, sweep_id: str) -> HttpResponse:
    return _steer(request, sweep_id, services.pause, "The sweep is paused; trials that have begun go on.")


@login_required
@require_POST
def resume(request: HttpRequest, sweep_id: str) -> HttpResponse:
    return _steer(request, sweep_id, services.resume, "The sweep goes on.")


@login_required
@require_POST
def cancel(request: HttpRequest, sweep_id: str) -> HttpResponse:
    return _steer(request, sweep_id, services.cancel, "The sweep is cancelled; its trials stop.")


@login_required
@require_POST
def budget(request: HttpRequest, sweep_id: str) -> HttpResponse:
    fields = {name: request.POST[name] for name, _ in BUDGET_FIELDS if request.POST.get(name, "") != ""}

    def change(actor: Actor, changed_id: str) -> None:
        services.change_budget(actor, changed_id, fields)

    return _steer(request, sweep_id, change, "The budget is changed.")


def _steer(
    request: HttpRequest, sweep_id: str, verb: Callable[[Actor, str], None], done: str
) -> HttpResponse:
    """Back to the page with a word of success, or the page with the refusal."""
    actor = actor_of(request)
    try:
        verb(actor, sweep_id)
    except TrainmasterError as error:
        if error.code in ("not_allowed", "not_found"):
            raise
        page = _page(actor, sweep_id, error.sentence)
        return fragments.render(request, "sweeps/detail.html", page, status=error.kind.http)
    messages.success(request, done)
    return redirect("sweeps:detail", sweep_id=sweep_id)
