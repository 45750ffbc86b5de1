"""The form of a new endpoint: a model, its version, how many replicas and which latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from platform_core.errors import TrainmasterError
from platform_core.jobs.reader import SpecError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.artifacts import queries as artifacts
from webapp.pages import fragments
from webapp.quotas import queries as quotas
from webapp.registry import queries as registry
from webapp.serving import services

NUMBERS = ("version", "gpus", "min_replicas", "max_replicas", "target_latency_ms", "sample_percent")
TEXTS = ("alias", "entry", "code")
LISTS = ("collect_for", "redact")  # separated by commas
MORE = ("sample_percent", *TEXTS, *LISTS)  # below what every endpoint needs
DEFAULTS = {"version": "0", "gpus": "1", "min_replicas": "1", "max_replicas": "1", "target_latency_ms": "0"}


@dataclass(frozen=True, slots=True)
class CreatePage:
    models: Sequence[str]  # team/name, of those with a version that can be served
    gpu_types: Sequence[str]
    bundles: Sequence[tuple[str, str]]  # id and name of code, newest first
    more: bool  # the rarer fields are open
    values: Mapping[str, str]
    problems: Mapping[str, str]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    given = (request.POST if request.method == "POST" else request.GET).dict()
    problems: dict[str, str] = {}
    if request.method == "POST":
        team, _, model = given.get("model", "").partition("/")
        permissions.require(actor, "endpoint.create", team, what=f"model {model} in team {team}")
        try:
            row = services.create(actor, _mapping(given, team, model))
        except SpecError as error:
            problems = {problem.field: problem.sentence for problem in error.problems}
        except TrainmasterError as error:
            if error.code == "not_allowed":
                raise
            problems = {"": error.sentence}
        else:
            messages.success(request, f"Endpoint {row.name} starts as soon as there are slots.")
            return redirect("serving:detail", team=row.team_id, name=row.name)
    bundles = [(str(row.manifest_id), row.name) for row in artifacts.bundles(actor.sees)]
    more = any(given.get(name) for name in MORE)
    page = CreatePage(_models(actor), quotas.gpu_types(), bundles, more, {**DEFAULTS, **given}, problems)
    return fragments.render(request, "serving/create.html", page, status=422 if problems else 200)


def _models(actor: Actor) -> list[str]:
    teams = [view.slug for view in team_views(actor.sees)]
    models = registry.models([slug for slug in teams if permissions.may(actor, "endpoint.create", slug)])
    ready = (model for model in models if any(one.state == "ready" for one in model.versions.all()))
    return [f"{model.team_id}/{model.name}" for model in ready]


def _mapping(given: Mapping[str, str], team: str, model: str) -> dict[str, Any]:
    """A number if it is one; otherwise the text, which the core then refuses with its sentence."""
    numbers = {name: given[name].strip() for name in NUMBERS if given.get(name, "").strip()}
    return {
        "name": given.get("name", "").strip(), "team": team, "model": model, "gpu_type": given.get("gpu_type", ""),
        **{name: int(text) if text.isdecimal() else text for name, text in numbers.items()},
        **{name: given[name].strip() for name in TEXTS if given.get(name, "").strip()},
        **{
            name: [word.strip() for word in given[name].split(",")]
            for name in LISTS
            if given.get(name, "").strip()
        },
    }  # fmt: skip
