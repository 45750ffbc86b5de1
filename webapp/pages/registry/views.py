"""The pages of models: the list with its form, and one model's versions."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.pages import fragments
from webapp.pages.deployments.panels import of_model as deployments_of
from webapp.registry import queries, services
from webapp.registry.models import Model, ModelVersion


@login_required
@require_GET
def model_list(request: HttpRequest) -> HttpResponse:
    return _list(request, actor_of(request), {}, {})


def _list(
    request: HttpRequest, actor: Actor, values: dict[str, str], problems: dict[str, str], status: int = 200
) -> HttpResponse:
    teams = [view.slug for view in team_views(actor.sees)]
    mine = [slug for slug in teams if permissions.may(actor, "model.register", slug)]
    context = {
        "subjects": " ".join(f"models:{slug}" for slug in teams),
        "models": [_line(model) for model in queries.models(actor.sees)],
        "register": {"teams": mine, "may": bool(mine), "values": values, "problems": problems},
    }
    return fragments.render(request, "registry/list.html", context, status=status)


def _line(model: Model) -> dict[str, Any]:
    versions = queries.versions(model)
    newest = versions[0] if versions else None
    deployments = [line for lines in deployments_of(model).values() for line in lines]
    return {
        "team": model.team_id,
        "name": model.name,
        "versions": len(versions),
        "newest": _newest(newest) if newest else None,
        "deployed": deployments[0]["label"] if deployments else "",
    }


def _newest(version: ModelVersion) -> dict[str, Any]:
    return {
        "version": version.version,
        "bytes": version.manifest.total_bytes if version.manifest else None,
        "metrics": sorted(version.metrics.items()),
        "created_ms": version.created_ms,
        "user": version.created_by.username,
    }


@login_required
@require_GET
def detail(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor = actor_of(request)
    permissions.require(actor, "model.view", team, what=f"model {team}/{name}")
    model = queries.model(team, name)
    if model is None:
        raise TrainmasterError("not_found", what=f"model {team}/{name}")
    versions = queries.versions(model)
    deployed = deployments_of(model)
    count = f"{len(versions)} version{'s' if len(versions) != 1 else ''}"
    where = next(
        (f"; v{v.version} is on {deployed[v.id][0]['label']}" for v in versions if deployed.get(v.id)), ""
    )
    context = {
        "model": {"team": team, "name": name, "sentence": f"{count}{where}."},
        "subjects": f"models:{team} deployments:{team}",
        "versions": [_version(version, deployed.get(version.id, [])) for version in versions],
        "may": {"deploy": permissions.may(actor, "deployment.create", team)},
    }
    return fragments.render(request, "registry/detail.html", context)


def _version(version: ModelVersion, deployments: list[dict[str, Any]]) -> dict[str, Any]:
    manifest = version.manifest
    kind = "checkpoint" if version.job_id else "url"
    return {
        "id": version.id,
        "version": version.version,
        "state": version.state,
        "error": version.error,
        "source": {"kind": kind, "label": version.source, "job_id": version.job_id or ""},
        "manifest": manifest.id if manifest else "",
        "bytes": manifest.total_bytes if manifest else None,
        "files": manifest.files if manifest else 0,
        "chunks": len(manifest.document["chunks"]) if manifest else 0,
        "metrics": sorted(version.metrics.items()),
        "created_ms": version.created_ms,
        "user": version.created_by.username,
        "deployments": deployments,
    }


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
