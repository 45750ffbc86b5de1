"""What people do with an experiment and its saved views: create, edit, archive, delete, restore."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.experiments import queries, saved_views, services
from webapp.experiments.experiments import ExperimentChanges
from webapp.experiments.models import Experiment


@login_required
@require_POST
def create(request: HttpRequest) -> HttpResponse:
    actor, team = actor_of(request), request.POST.get("team", "")
    permissions.require(actor, "experiment.edit", team)
    name, description = request.POST.get("name", ""), request.POST.get("description", "")
    try:
        experiment = services.create_experiment(actor, team, name, description=description)
    except TrainmasterError as error:
        messages.error(request, error.sentence)
        return redirect("experiments:list")
    return redirect("experiments:detail", experiment.pk)


@login_required
@require_POST
def edit(request: HttpRequest, experiment_id: int) -> HttpResponse:
    actor, experiment = _asked_for(request, experiment_id)
    given: ExperimentChanges = {}
    for name in ("name", "description"):
        if name in request.POST:
            given[name] = request.POST[name]
    verb = lambda: services.update_experiment(actor, experiment, **given)  # noqa: E731
    return _carry_out(request, experiment, verb, "Experiment changed.")


@login_required
@require_POST
def archive(request: HttpRequest, experiment_id: int) -> HttpResponse:
    actor, experiment = _asked_for(request, experiment_id)
    done = "Experiment archived: the list leaves it out."
    return _carry_out(request, experiment, lambda: services.archive_experiment(actor, experiment), done)


@login_required
@require_POST
def restore(request: HttpRequest, experiment_id: int) -> HttpResponse:
    actor, experiment = _asked_for(request, experiment_id)
    done = "Experiment restored."
    return _carry_out(request, experiment, lambda: services.restore_experiment(actor, experiment), done)


@login_required
@require_POST
def delete(request: HttpRequest, experiment_id: int) -> HttpResponse:
    actor, experiment = _asked_for(request, experiment_id)
    done = "Experiment deleted with its runs."
    return _carry_out(request, experiment, lambda: services.delete_experiment(actor, experiment), done)


@login_required
@require_POST
def save_view(request: HttpRequest, experiment_id: int) -> HttpResponse:
    actor, experiment = _asked_for(request, experiment_id)
    name, query = request.POST.get("name", ""), request.POST.get("query", "")
    shared = request.POST.get("shared") == "true"

    def save() -> None:
        saved_views.save_view(actor, experiment, name, query, shared=shared)

    return _carry_out(request, experiment, save, f"View {name} saved.", query)


@login_required
@require_POST
def delete_view(request: HttpRequest, experiment_id: int, view_id: int) -> HttpResponse:
    actor, experiment = _asked_for(request, experiment_id)
    return _carry_out(
        request, experiment, lambda: saved_views.delete_view(actor, experiment, view_id), "View deleted."
    )


def _asked_for(request: HttpRequest, experiment_id: int) -> tuple[Actor, Experiment]:
    actor = actor_of(request)
    return actor, queries.find_experiment(actor, experiment_id, deleted=True)


def _carry_out(
    request: HttpRequest, experiment: Experiment, verb: Callable[[], object], done: str, query: str = ""
) -> HttpResponse:
    """Back to the page with what was done, or with the refusal."""
    try:
        verb()
        messages.success(request, done)
    except TrainmasterError as error:
        if error.code in ("not_allowed", "not_found"):
            raise
        messages.error(request, error.sentence)
    address = reverse("experiments:detail", args=[experiment.pk])
    return redirect(f"{address}?{query}" if query else address)
