"""The buttons of retraining: set the policy, delete it, begin a cycle, approve its next step, end it."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from platform_core.jobs.reader import SpecError
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.pages.retraining import views
from webapp.registry.models import Model
from webapp.retraining import queries, services


@login_required
@require_POST
def set_policy(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor = actor_of(request)
    model = views.model_for(actor, team, name)
    sent = {key: value for key, value in request.POST.dict().items() if key != "csrfmiddlewaretoken"}
    fields = {**sent, **{key: key in sent for key in views.truths()}}
    try:
        services.set_policy(actor, model, fields)
    except SpecError as error:
        problems = {problem.field: problem.sentence for problem in error.problems}
        return views.show(request, actor, team, name, problems, fields, 422)
    messages.success(request, f"The retraining of {name} follows this policy from now on, as you.")
    return redirect("retraining:detail", team=team, name=name)


@login_required
@require_POST
def delete_policy(request: HttpRequest, team: str, name: str) -> HttpResponse:
    done = f"{name} is not retrained by itself any more."
    return _carry_out(request, team, name, services.delete_policy, done)


@login_required
@require_POST
def start(request: HttpRequest, team: str, name: str) -> HttpResponse:
    return _carry_out(request, team, name, services.start, "A cycle has begun.")


@login_required
@require_POST
def approve(request: HttpRequest, team: str, name: str, cycle_id: str) -> HttpResponse:
    seen = request.POST.get("state", "")

    def do(actor: Actor, model: Model) -> None:
        services.approve(actor, _of(actor, model, cycle_id), seen)

    return _carry_out(request, team, name, do, "Approved; the step is done in the next round.")


@login_required
@require_POST
def cancel(request: HttpRequest, team: str, name: str, cycle_id: str) -> HttpResponse:
    def do(actor: Actor, model: Model) -> None:
        services.cancel(actor, _of(actor, model, cycle_id))

    return _carry_out(request, team, name, do, "The cycle has ended.")


def _of(actor: Actor, model: Model, cycle_id: str) -> str:
    """The id, where the cycle is of this model."""
    if queries.cycle_for(actor, cycle_id).model_id != model.pk:
        raise TrainmasterError("not_found", what=f"retraining cycle {cycle_id}")
    return cycle_id


def _carry_out(
    request: HttpRequest, team: str, name: str, verb: Callable[[Actor, Model], object], done: str
) -> HttpResponse:
    """Back to the page with a word of success, or the page with the refusal."""
    actor = actor_of(request)
    model = views.model_for(actor, team, name)
    try:
        verb(actor, model)
    except TrainmasterError as error:
        if error.code in ("not_allowed", "not_found"):
            raise
        return views.show(request, actor, team, name, {"": error.sentence}, status=error.kind.http)
    messages.success(request, done)
    return redirect("retraining:detail", team=team, name=name)
