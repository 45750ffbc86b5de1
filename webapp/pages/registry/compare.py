"""Two versions of a model side by side."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from webapp.accounts.queries import actor_of
from webapp.pages import fragments
from webapp.registry import comparison, queries
from webapp.registry.comparison import Section


@dataclass(frozen=True, slots=True)
class VersionComparisonPage:
    team: str
    model: str
    versions: tuple[int, ...]
    before: int
    after: int
    sections: tuple[Section, ...]


@login_required
@require_GET
def compare(request: HttpRequest, team: str, name: str) -> HttpResponse:
    model = queries.model_for(actor_of(request), team, name)
    versions = queries.versions(model)
    pair = comparison.pair(model, versions, _number(request, "a"), _number(request, "b"))
    page = VersionComparisonPage(
        team, name, tuple(version.version for version in versions),
        before=pair[0].version if pair else 0, after=pair[1].version if pair else 0,
        sections=tuple(comparison.sections(pair)) if pair else (),
    )  # fmt: skip
    return fragments.render(request, "registry/compare.html", page)


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else None
