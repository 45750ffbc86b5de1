"""What the buttons and the form of a deployment do."""

from collections.abc import Mapping

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.distribution.canaries import DEFAULT_CHECK_SECONDS
from platform_core.distribution.tiling import MIB
from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.deployments import queries, services
from webapp.deployments.delivery import keeping
from webapp.deployments.rollout import switching
from webapp.deployments.values import Manner, RolloutWish
from webapp.registry import queries as registry


@login_required
@require_POST
def create(request: HttpRequest) -> HttpResponse:
    version = registry.version(request.POST.get("model_version", ""))
    if version is None:
        raise TrainmasterError("not_found", what="model version")
    model = str(version.model)
    given = request.POST
    if not (targets := given.getlist("targets")):  # over REST none means all, but here somebody unticked them
        raise TrainmasterError("request_invalid", what="The deployment", why="choose at least one node")
    manner = Manner(
        given.get("strategy") or "auto", "preheat" in given, "pin" in given, _rollout(given),
        _number(given.get("priority", "")), rate_cap(given),
    )  # fmt: skip
    row = services.create(
        actor_of(request),
        model,
        version.version,
        target_workers=targets,
        manner=manner,
    )
    messages.success(request, f"{model} version {version.version} is on its way.")
    return redirect("deployments:detail", deployment_id=row.id)


def _rollout(given: Mapping[str, str]) -> RolloutWish | None:
    """Of the form's fields; None unless one of them says that the version shall become active."""
    fields = ("activate", "canary", "hold_minutes", "health_check", "hook", "wait_for_all")
    if not any(given.get(field, "").strip() for field in fields):
        return None
    minutes = _entered(
        given, "hold_minutes", "The hold", "no number of minutes; leave it empty to promote by hand"
    )
    every = _entered(given, "check_every", "The health check", "no number of seconds; 0 does not repeat it")
    failures = _entered(
        given,
        "roll_back_after",
        "Roll back after",
        "no number of failures; leave it empty to decide yourself",
    )
    return RolloutWish(
        canary=given.get("canary", "").strip(),
        hold_seconds=None if minutes is None else minutes * 60,
        health_check=given.get("health_check", "").strip(),
        check_every_seconds=DEFAULT_CHECK_SECONDS if every is None else every,
        roll_back_after=failures or 0,
        hook=given.get("hook", "").strip(),
        wait_for_all="wait_for_all" in given,
    )


def _entered(given: Mapping[str, str], field: str, what: str, why: str) -> int | None:
    """None where the field is empty."""
    text = given.get(field, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise TrainmasterError("request_invalid", what=what, why=f'"{text}" is {why}')
    return int(text)


def rate_cap(given: Mapping[str, str]) -> int:
    """Bytes per second."""
    return _number(given.get("rate_cap_mib", "")) * MIB


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


@login_required
@require_POST
def cancel(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    services.cancel(actor_of(request), deployment_id)
    messages.success(request, "The deployment is cancelled; the nodes remove what they had received.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def retry(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    services.retry(actor_of(request), deployment_id)
    messages.success(request, "The nodes fetch it again; what they have verified they keep.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def pin(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    pinned = request.POST.get("pin") == "1"
    keeping.pin(actor_of(request), deployment_id, pinned)
    told = "No node gives it up for room." if pinned else "It may go when a node needs room."
    messages.success(request, told)
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def promote(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    switching.promote(actor_of(request), deployment_id)
    messages.success(request, "The other nodes follow as soon as the canaries have passed.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def rollback(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    switching.roll_back(actor_of(request), deployment_id)
    messages.success(request, "The nodes go back to what they ran before.")
    return redirect("deployments:detail", deployment_id=deployment_id)
