"""Search of jobs, experiments, models and nodes by name or id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.experiments import queries as experiments
from webapp.jobs import queries as jobs
from webapp.nodes import queries as nodes
from webapp.pages import fragments
from webapp.registry import queries as registry

HITS_OF_A_KIND = 10


@dataclass(frozen=True, slots=True)
class Hit:
    label: str
    note: str
    url: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    hits: list[Hit]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Fragment: found, the list under the search field of every page."""

    q: str
    groups: list[Group]


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()
    groups = [group for group in _groups(actor_of(request), words) if group.hits] if words else []
    return fragments.render(request, "overview/search.html", SearchPage(words, groups))


def _groups(actor: Actor, words: str) -> list[Group]:
    found_jobs = jobs.filtered(jobs.visible(actor.sees), search=words)[:HITS_OF_A_KIND]
    found_experiments = experiments.visible(actor.sees).filter(name__icontains=words)[:HITS_OF_A_KIND]
    models = [model for model in registry.models(actor.sees) if words.lower() in model.name]
    machines = [node for node in nodes.summaries() if words.lower() in node.hostname.lower()]
    return [
        Group("Jobs", [Hit(j.name, j.team_id, _url("jobs:detail", j.id), j.state) for j in found_jobs]),
        Group(
            "Experiments",
            [Hit(e.name, e.team_id, _url("experiments:detail", e.id)) for e in found_experiments],
        ),
        Group(
            "Models",
            [
                Hit(m.name, m.team_id, _url("registry:detail", m.team_id, m.name))
                for m in models[:HITS_OF_A_KIND]
            ],
        ),
        Group(
            "Nodes",
            [Hit(n.hostname, n.rack, _url("nodes:node", n.id), n.state) for n in machines[:HITS_OF_A_KIND]],
        ),
    ]


def _url(view: str, *arguments: Any) -> str:
    return reverse(view, args=arguments)
