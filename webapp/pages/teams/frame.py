"""What every section of a team's page shows above its own content, and how its forms answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from webapp.accounts import queries
from webapp.accounts.permissions import may, require
from webapp.accounts.queries import TeamView, actor_of
from webapp.pages.verbs import Refuse, carry_out


@dataclass(frozen=True, slots=True)
class Team:
    """The team as its reader sees it."""

    slug: str
    name: str
    archived_ms: int | None
    edit_quota: bool
    manage_members: bool
    manage_secrets: bool
    place: Callable[[], str]  # where it stands in the tree of departments


def team_of(request: HttpRequest, slug: str) -> Team:
    """Raises not_found for outsiders."""
    actor = actor_of(request)
    require(actor, "team.view", slug)
    team = queries.team(slug)
    return Team(
        slug=team.slug,
        name=team.name,
        archived_ms=team.archived_ms,
        edit_quota=may(actor, "quota.edit", slug),
        manage_members=may(actor, "team.manage_members", slug),
        manage_secrets=may(actor, "secret.manage", slug),
        place=lambda: _place(team),
    )


def _place(team: TeamView) -> str:
    """ "In Research › Language, weight 2", or nothing for a team of weight 1 at the top."""
    above = " › ".join(department.name for department in queries.departments_above(team))
    if above:
        return f"In {above}, weight {team.weight:,}"
    return f"In no department, weight {team.weight:,}" if team.weight != 1 else ""


Show = Callable[[HttpRequest, str, Mapping[str, str], int], HttpResponse]


def submit(
    request: HttpRequest, slug: str, verb: Callable[[], object], done: str, *, section: str, show: Show
) -> HttpResponse:
    """Carries out a form of a section: back to it, or the section again with the refusal."""
    require(actor_of(request), "team.view", slug)
    refuse: Refuse = lambda problems, status: show(request, slug, problems, status)  # noqa: E731
    return carry_out(request, verb, done, redirect(section, slug), refuse)
