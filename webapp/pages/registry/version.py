"""One version of a model: its card, and the form in which people complete it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.lineage import cards
from webapp.pages import fragments, markdown
from webapp.registry import queries, services
from webapp.registry.models import ModelVersion

FIELDS = ("description", "licence", "aliases", "tags", "card")
REFUSALS = frozenset({"gate_refused", "request_invalid"})


@dataclass(frozen=True, slots=True)
class VersionPage:
    team: str
    model: str
    version: ModelVersion
    card: SafeString
    may_edit: bool
    values: Mapping[str, str]  # of the form, as it is or as it was refused
    problem: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


@login_required
@require_GET
def detail(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    version = queries.numbered(queries.model_for(actor_of(request), team, name), number)
    return _detail(request, version, _values(version))


@login_required
@require_POST
def describe(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    actor = actor_of(request)
    version = queries.numbered(queries.model_for(actor, team, name), number)
    values = {one: request.POST.get(one, "").strip() for one in FIELDS}
    try:
        _change(actor, version, values)
    except TrainmasterError as error:
        if error.code not in REFUSALS:
            raise
        return _detail(request, version, values, error.sentence, status=422)
    messages.success(request, f"The card of version {number} is saved.")
    return redirect("registry:version", team=team, name=name, number=number)


@transaction.atomic
def _change(actor: Actor, version: ModelVersion, values: Mapping[str, str]) -> None:
    services.describe(actor, version, values["description"])
    services.fill_card(actor, version, licence=values["licence"], card=values["card"])
    tags = _tags(values["tags"])
    services.delete_tags(actor, version, version.tags.keys() - tags.keys())
    services.set_tags(actor, version, tags)
    wanted, known = set(_parts(values["aliases"])), {alias.name for alias in version.aliases.all()}
    for name in sorted(known - wanted):
        services.delete_alias(actor, version.model, name)
    for name in sorted(wanted - known):
        services.set_alias(actor, version, name)


def _detail(
    request: HttpRequest,
    version: ModelVersion,
    values: Mapping[str, str],
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    actor = actor_of(request)
    text = cards.model_card(actor, version).partition("\n")[2]  # its title is that of the page
    page = VersionPage(
        version.model.team_id, version.model.name, version,
        card=markdown.render(text, heading=1),
        may_edit=permissions.may(actor, "model.register", version.model.team_id),
        values=values,
        problem=problem,
    )  # fmt: skip
    return fragments.render(request, "registry/version.html", page, status=status)


def _values(version: ModelVersion) -> dict[str, str]:
    return {
        "description": version.description,
        "licence": version.licence,
        "aliases": ", ".join(sorted(alias.name for alias in version.aliases.all())),
        "tags": "\n".join(f"{name} = {value}" for name, value in sorted(version.tags.items())),
        "card": version.card,
    }


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _tags(text: str) -> dict[str, str]:
    """A line each: "name = value"."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
