"""What templates/base.html needs on every page. Nothing is read before a template asks for it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from django.http import HttpRequest

from webapp.accounts import queries
from webapp.accounts.models import Role
from webapp.accounts.permissions import Actor
from webapp.deployments import queries as deployments
from webapp.jobs import queries as jobs
from webapp.nodes import queries as nodes

# The number beside a link of the navigation: one cheap query.
COUNTS: dict[str, Callable[[Actor], int]] = {
    "jobs": lambda actor: jobs.active_count(actor.sees),
    "waiting": lambda actor: jobs.waiting_count(None),  # as the queue counts
    "deployments": lambda actor: deployments.active_count(actor.sees),
    "nodes": lambda actor: nodes.count(),
}


class Counts:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __getitem__(self, name: str) -> int | None:
        return COUNTS[name](self._actor) if name in COUNTS else None


class Frame:
    """teams: [{slug, name, role}], the person's own first; team_word: "vision · lead"; counts.<name>."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def _actor(self) -> Actor:
        return queries.actor_of(self._request)

    @cached_property
    def teams(self) -> list[dict[str, str]]:
        roles = self._actor.roles
        views = queries.teams(None if self._actor.is_admin else roles)
        words = [
            {"slug": view.slug, "name": view.name, "role": _word(roles.get(view.slug))} for view in views
        ]
        return sorted(words, key=lambda word: (word["role"] != Role.LEAD, not word["role"], word["name"]))

    @property
    def team_word(self) -> str:
        return " · ".join(filter(None, (self.teams[0]["slug"], self.teams[0]["role"]))) if self.teams else ""

    @cached_property
    def counts(self) -> Counts:
        return Counts(self._actor)

    @property
    def is_admin(self) -> bool:
        return self._actor.is_admin


def _word(role: Role | None) -> str:
    return str(role) if role else ""


def frame(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)  # an error page may come before the middleware that sets it
    return {"frame": Frame(request)} if user is not None and user.is_authenticated else {}
