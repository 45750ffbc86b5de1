"""The pages of models: the list with its form, and one model's versions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from platform_core.units import plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import queries as checkpoints
from webapp.pages import fragments
from webapp.pages.deployments import panels
from webapp.pages.registry import gate
from webapp.pages.registry.gate import GatePanel
from webapp.registry import queries, services
from webapp.registry.models import Model, ModelVersion


@dataclass(frozen=True, slots=True)
class ModelRow:
    team: str
    name: str
    versions: int
    newest: ModelVersion | None
    deployed: str  # "4 of 4 nodes", "" for never

    aliases: list[tuple[str, int]]  # name and version
    tags: list[tuple[str, str]]

    @property
    def metrics(self) -> list[tuple[str, Any]]:
        return sorted(self.newest.metrics.items()) if self.newest else []


@dataclass(frozen=True, slots=True)
class ModelsPage:
    models: tuple[ModelRow, ...]
    register_teams: tuple[str, ...]  # in which the reader may register
    values: Mapping[str, str]  # of the refused form
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VersionRow:
    version: ModelVersion
    source: str  # as people call it: "bytelm-slow-rate, step 100", or an address
    chunks: int
    deployments: list[dict[str, Any]]

    @property
    def metrics(self) -> list[tuple[str, Any]]:
        return sorted(self.version.metrics.items())

    @property
    def aliases(self) -> list[str]:
        return sorted(alias.name for alias in self.version.aliases.all())

    @property
    def tags(self) -> list[tuple[str, str]]:
        return sorted(self.version.tags.items())


@dataclass(frozen=True, slots=True)
class ModelPage:
    address: str  # of its live parts, where a refused form is shown at another one
    team: str
    model: str
    summary: str
    description: str
    tags: list[tuple[str, str]]
    subjects: str  # that the page listens to
    versions: tuple[VersionRow, ...]
    may_deploy: bool
    gate: Callable[[], GatePanel]
    text: str  # of the form that changes the gate: the gate, or what was refused
    problem: str  # why


@login_required
@require_GET
def model_list(request: HttpRequest) -> HttpResponse:
    return _list(request, actor_of(request), {}, {})


def _list(
    request: HttpRequest,
    actor: Actor,
    values: Mapping[str, str],
    problems: Mapping[str, str],
    status: int = 200,
) -> HttpResponse:
    models = queries.models(actor.sees)
    deployed = panels.newest_of(models)
    teams = (view.slug for view in team_views(actor.sees))
    page = ModelsPage(
        models=tuple(_row(model, deployed.get(model.pk, "")) for model in models),
        register_teams=tuple(slug for slug in teams if permissions.may(actor, "model.register", slug)),
        values=values,
        problems=problems,
    )
    return fragments.render(request, "registry/list.html", page, status=status)


def _row(model: Model, deployed: str) -> ModelRow:
    versions = list(model.versions.all())
    newest = max(versions, key=lambda version: version.version, default=None)
    aliases = sorted((alias.name, version.version) for version in versions for alias in version.aliases.all())
    return ModelRow(
        model.team_id, model.name, len(versions), newest, deployed, aliases, sorted(model.tags.items())
    )


@login_required
@require_GET
def detail(request: HttpRequest, team: str, name: str) -> HttpResponse:
    model = queries.model_for(actor_of(request), team, name)
    return _detail(request, model, gate.written(model))


@login_required
@require_POST
def change_gate(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor, text = actor_of(request), request.POST.get("policy", "")
    model = queries.model_for(actor, team, name)
    try:
        messages.success(request, gate.change(actor, model, text))
    except TrainmasterError as error:
        if error.code != "request_invalid":
            raise
        return _detail(request, model, text, error.sentence, status=422)
    return redirect("registry:detail", team=team, name=name)


def _detail(
    request: HttpRequest, model: Model, text: str, problem: str = "", status: int = 200
) -> HttpResponse:
    actor, team = actor_of(request), model.team_id
    versions = queries.versions(model)
    deployed = panels.of_model(model)
    sources = [version.source for version in versions]
    names = checkpoints.names(sources) | artifacts.names(sources, [team])
    page = ModelPage(
        address=reverse("registry:detail", args=[team, model.name]),
        team=team,
        model=model.name,
        summary=_summary(versions, deployed),
        description=model.description,
        tags=sorted(model.tags.items()),
        subjects=f"models:{team} deployments:{team}",
        versions=tuple(
            VersionRow(
                version,
                source=names.get(version.source, version.source),
                chunks=len(version.manifest.document["chunks"]) if version.manifest else 0,
                deployments=deployed.get(version.id, []),
            )
            for version in versions
        ),
        may_deploy=permissions.may(actor, "deployment.create", team),
        gate=cache(lambda: gate.panel(actor, model, versions)),
        text=text,
        problem=problem,
    )
    return fragments.render(request, "registry/detail.html", page, status=status)


def _summary(versions: list[ModelVersion], deployed: Mapping[str, list[dict[str, Any]]]) -> str:
    """ "3 versions; v3 is on 4 of 4 nodes"."""
    live = next((version for version in versions if deployed.get(version.id)), None)
    where = f"; v{live.version} is on {deployed[live.id][0]['label']}" if live else ""
    return plural(len(versions), "version") + where


@login_required
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    values = {
        name: request.POST.get(name, "").strip() for name in ("team", "name", "checkpoint", "source_url")
    }
    try:
        version = services.register(
            actor,
            values["team"],
            values["name"],
            checkpoint=values["checkpoint"],
            source_url=values["source_url"],
        )
    except TrainmasterError as error:
        if error.code not in {"request_invalid", "not_found"}:
            raise
        field = "source_url" if "source" in error.sentence else "name"
        return _list(request, actor, values, {field: error.sentence}, status=422)
    messages.success(request, f"{values['name']} version {version.version} is registered.")
    after = request.POST.get("next", "")
    if after and url_has_allowed_host_and_scheme(after, allowed_hosts={request.get_host()}):
        return redirect(after)
    return redirect("registry:detail", team=values["team"], name=values["name"])
