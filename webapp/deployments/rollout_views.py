"""The buttons of a rollout, and what the form of a deployment says about it."""

from collections.abc import Mapping

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.deployments import rollouts
from webapp.deployments.api import deployment_for
from webapp.deployments.values import RolloutWish


@login_required
@require_POST
def promote(request: HttpRequest, deployment_id: str) -> HttpResponse:
    deployment_for(request, deployment_id)
    rollouts.promote(actor_of(request), deployment_id)
    messages.success(request, "The other nodes follow as soon as the canaries have passed.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def rollback(request: HttpRequest, deployment_id: str) -> HttpResponse:
    deployment_for(request, deployment_id)
    rollouts.roll_back(actor_of(request), deployment_id)
    messages.success(request, "The nodes go back to what they ran before.")
    return redirect("deployments:detail", deployment_id=deployment_id)


def wish(given: Mapping[str, str]) -> RolloutWish | None:
    """Of the form's fields; None unless one of them says that the version shall become active."""
    fields = ("activate", "canary", "hold_minutes", "health_check", "hook", "wait_for_all")
    if not any(given.get(field, "").strip() for field in fields):
        return None
    minutes = given.get("hold_minutes", "").strip()
    if minutes and not (minutes.isascii() and minutes.isdigit() and len(minutes) < 7):
        why = f'"{minutes}" is no number of minutes; leave it empty to promote by hand'
        raise TrainmasterError("request_invalid", what="The hold", why=why)
    return RolloutWish(
        canary=given.get("canary", "").strip(),
        hold_seconds=int(minutes) * 60 if minutes else None,
        health_check=given.get("health_check", "").strip(),
        hook=given.get("hook", "").strip(),
        wait_for_all="wait_for_all" in given,
    )
