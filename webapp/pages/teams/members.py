"""The section Members of a team's page: who belongs to the team, as what."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from webapp.accounts import queries, services
from webapp.accounts.models import Role
from webapp.accounts.queries import MemberView, actor_of
from webapp.pages import fragments
from webapp.pages.accounts.forms import MemberForm, RoleForm, values
from webapp.pages.teams.frame import Team, submit, team_of


@dataclass(frozen=True, slots=True)
class MembersPage:
    team: Team
    members: tuple[MemberView, ...]
    roles: tuple[str, ...]
    me: str
    problems: Mapping[str, str]
    section: str = "members"


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def members(request: HttpRequest, slug: str) -> HttpResponse:
    if request.method == "POST":
        return _add(request, slug)
    return _page(request, slug, {}, 200)


def _page(request: HttpRequest, slug: str, problems: Mapping[str, str], status: int) -> HttpResponse:
    page = MembersPage(
        team=team_of(request, slug),
        members=queries.members(slug),
        roles=tuple(Role),
        me=actor_of(request).username,
        problems=problems,
    )
    return fragments.render(request, "teams/members.html", page, status=status)


def _add(request: HttpRequest, slug: str) -> HttpResponse:
    def add() -> None:
        form = values(MemberForm(request.POST))
        services.set_role(actor_of(request), slug, form["username"], Role(form["role"]))

    done = f"{request.POST.get('username', '')} is in the team."
    return submit(request, slug, add, done, section="teams:members", show=_page)


@login_required
@require_POST
def role(request: HttpRequest, slug: str, user_id: int) -> HttpResponse:
    def change() -> None:
        form = values(RoleForm(request.POST))
        services.set_role(actor_of(request), slug, _member(slug, user_id), Role(form["role"]))

    return submit(request, slug, change, "Role changed.", section="teams:members", show=_page)


@login_required
@require_POST
def remove(request: HttpRequest, slug: str, user_id: int) -> HttpResponse:
    def leave() -> None:
        services.remove_member(actor_of(request), slug, _member(slug, user_id))

    return submit(request, slug, leave, "Removed from the team.", section="teams:members", show=_page)


def _member(slug: str, user_id: int) -> str:
    """Returns the username. Raises not_found for people of other teams."""
    for member in queries.members(slug):
        if member.user_id == user_id:
            return member.username
    raise TrainmasterError("not_found", what=f"member of {slug} of that number")
