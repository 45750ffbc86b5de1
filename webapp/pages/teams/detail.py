"""The page of one team: members, secrets, quota, costs and receipts."""

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from platform_core.errors import TrainmasterError
from webapp.accounts import queries
from webapp.accounts.models import Role
from webapp.accounts.permissions import may, require
from webapp.events import queries as events
from webapp.pages import fragments
from webapp.pages.queue import panels as queue_panels
from webapp.pages.teams import quota

CHANGES_SHOWN = 30
CHANGE_SUBJECTS = ("team", "quota", "secret", "token")


def show(
    request: HttpRequest, slug: str, *, problems: Mapping[str, str] | None = None, status: int = 200
) -> HttpResponse:
    actor = queries.actor_of(request)
    require(actor, "team.view", slug)
    team = queries.team(slug)
    context = {
        "team": {"slug": team.slug, "name": team.name},
        "standing": lambda: _standing(team),
        "may": {
            "edit_quota": may(actor, "quota.edit", slug),
            "manage_members": may(actor, "team.manage_members", slug),
            "manage_secrets": may(actor, "secret.manage", slug),
        },
        "roles": [str(role) for role in Role],
        "members": lambda: [
            {
                "user_id": member.user_id,
                "username": member.username,
                "name": member.full_name,
                "role": str(member.role),
                "self": member.username == actor.username,
            }
            for member in queries.members(slug)
        ],
        "secrets": lambda: queries.secrets(slug),
        "changes": lambda: events.of_team(slug, CHANGE_SUBJECTS, CHANGES_SHOWN),
        "problems": dict(problems or {}),
        **quota.of_team(actor, slug),
        **queue_panels.of_team(actor, slug),
    }
    return fragments.render(request, "teams/detail.html", context, status=status)


def _standing(team: queries.TeamView) -> str:
    """ "In Research › Language, with weight 2 there.", or nothing where there is nothing to tell."""
    above = " › ".join(each.name for each in queries.departments_above(team))
    if above:
        return f"In {above}, with weight {team.weight:,} there."
    return f"In no department; its weight is {team.weight:,}." if team.weight != 1 else ""


def act(request: HttpRequest, slug: str, do: Callable[[], None], done: str) -> HttpResponse:
    """Carry out a form of the team page: back to it with a word of success, or the page with the refusal.

    Whoever may not see the team, or not do this, gets the error itself.
    """
    require(queries.actor_of(request), "team.view", slug)
    try:
        do()
    except TrainmasterError as error:
        if error.code == "not_allowed":
            raise
        return show(request, slug, problems={error.code: error.sentence}, status=error.kind.http)
    messages.success(request, done)
    return redirect("accounts:team", slug)
