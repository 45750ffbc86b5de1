"""The buttons of an endpoint: change its version, promote, roll back, scale, stop."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from platform_core.serving.canary import CanaryPolicy
from platform_core.units import MINUTE_MS
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.pages.serving import views
from webapp.serving import services

MOST_MINUTES = 7 * 24 * 60


@login_required
@require_POST
def change_version(request: HttpRequest, team: str, name: str) -> HttpResponse:
    def change(actor: Actor) -> None:
        version = round(_number(request.POST, "version", "Version", 1, 1_000_000))
        services.change_version(actor, team, name, version, _policy(request.POST))

    what = "copies of requests" if request.POST.get("shadow") else "requests"
    return _carry_out(
        request, team, name, change, f"Version {request.POST['version']} gets {what} once it is ready."
    )


@login_required
@require_POST
def collect(request: HttpRequest, team: str, name: str) -> HttpResponse:
    done = f"{name}-requests has a version of all that is collected."
    return _carry_out(request, team, name, lambda actor: services.publish_collected(actor, team, name), done)


@login_required
@require_POST
def promote(request: HttpRequest, team: str, name: str) -> HttpResponse:
    done = "The canary takes over; the version before it answers until as many replicas are ready."
    return _carry_out(request, team, name, lambda actor: services.promote(actor, team, name), done)


@login_required
@require_POST
def roll_back(request: HttpRequest, team: str, name: str) -> HttpResponse:
    done = "The trial has ended; all requests go to the version in use."
    return _carry_out(request, team, name, lambda actor: services.roll_back(actor, team, name), done)


@login_required
@require_POST
def scale(request: HttpRequest, team: str, name: str) -> HttpResponse:
    def change(actor: Actor) -> None:
        least = round(_number(request.POST, "min_replicas", "Minimum replicas", 0, 1_000))
        most = round(_number(request.POST, "max_replicas", "Maximum replicas", 1, 1_000))
        services.scale(actor, team, name, least, most)

    return _carry_out(request, team, name, change, "The limits of its replicas are changed.")


@login_required
@require_POST
def stop(request: HttpRequest, team: str, name: str) -> HttpResponse:
    return _carry_out(
        request, team, name, lambda actor: services.stop(actor, team, name),
        f"Endpoint {name} stops; its replicas answer what they have and end.", reverse("serving:list"),
    )  # fmt: skip


def _carry_out(
    request: HttpRequest, team: str, name: str, verb: Callable[[Actor], object], done: str, back: str = ""
) -> HttpResponse:
    """Back to the page with a word of success, or the page with the refusal."""
    actor = actor_of(request)
    permissions.require(actor, "endpoint.view", team, what=f"endpoint {name} in team {team}")
    try:
        verb(actor)
    except TrainmasterError as error:
        if error.code in ("not_allowed", "not_found"):
            raise
        return views.show(request, actor, team, name, error.sentence, error.kind.http)
    messages.success(request, done)
    return redirect(back or reverse("serving:detail", args=[team, name]))


def _policy(form: QueryDict) -> CanaryPolicy:
    shadow = bool(form.get("shadow"))
    return CanaryPolicy(
        share=round(_number(form, "share_percent", "Share", 0.01, 100) * 100),
        watch_ms=round(_number(form, "watch_minutes", "Watch", 0, MOST_MINUTES) * MINUTE_MS),
        min_requests=round(_number(form, "min_requests", "Minimum requests", 0, 10**9)),
        automatic=bool(form.get("automatic")),
        shadow=shadow,
        min_agreement=_number(form, "min_agreement", "Answers alike", 0, 100) / 100 if shadow else 0.0,
        same_outputs=bool(form.get("same_outputs")),
    )


def _number(form: QueryDict, name: str, label: str, least: float, most: float) -> float:
    text = form.get(name, "")
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        why = f"it must be a number from {least:g} to {most:g}"
        raise TrainmasterError("request_invalid", what=f"{label} {text!r:.40}", why=why)
    return number
