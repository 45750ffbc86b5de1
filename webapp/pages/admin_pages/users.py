"""Users: find, invite, deactivate, reset a password, give and take the admin right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from platform_core.errors import TrainmasterError
from platform_core.units import HOUR_MS, format_duration_ms
from webapp.accounts import queries
from webapp.accounts import users as verbs
from webapp.accounts.models import Role
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import TeamView, UserState, UserView, actor_of
from webapp.accounts.users import PasswordLink
from webapp.pages import fragments
from webapp.pages.accounts.forms import values
from webapp.pages.admin_pages.access import for_admins
from webapp.pages.admin_pages.forms import UserForm
from webapp.pages.verbs import carry_out

SHOWN = 200


@dataclass(frozen=True, slots=True)
class LinkToCopy:
    """Shown once: it is kept nowhere."""

    username: str
    url: str
    valid_for: str


@dataclass(frozen=True, slots=True)
class UsersPage:
    users: tuple[UserView, ...]
    count: int
    search: str
    state: str
    states: tuple[str, ...]
    me: str
    teams: tuple[TeamView, ...]
    roles: tuple[str, ...]
    link: LinkToCopy | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)  # of the refused form


@for_admins
@require_safe
def users(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: HttpRequest,
    *,
    link: PasswordLink | None = None,
    problems: Mapping[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    search, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    state = state if state in set(UserState) else ""
    accounts, count = queries.users(search, state, SHOWN)
    page = UsersPage(
        users=accounts,
        count=count,
        search=search,
        state=state,
        states=tuple(UserState),
        me=actor_of(request).username,
        teams=queries.teams(),
        roles=tuple(Role),
        link=_to_copy(link) if link else None,
        problems=problems or {},
        typed=request.POST.dict() if problems else {},
    )
    return fragments.render(request, "admin_pages/users.html", page, status=status)


def _to_copy(link: PasswordLink) -> LinkToCopy:
    path = reverse("accounts:set_password", args=[link.uid, link.token])
    hours = settings.PASSWORD_RESET_TIMEOUT * 1000 // HOUR_MS * HOUR_MS
    return LinkToCopy(link.username, settings.PUBLIC_URL + path, format_duration_ms(hours))


@for_admins
@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    return _with_link(request, lambda actor: verbs.invite(actor, **values(UserForm(request.POST))))


@for_admins
@require_POST
def reset_password(request: HttpRequest, username: str) -> HttpResponse:
    return _with_link(request, lambda actor: verbs.reset_password(actor, username))


@for_admins
@require_POST
def reactivate(request: HttpRequest, username: str) -> HttpResponse:
    return _with_link(request, lambda actor: verbs.reactivate(actor, username))


def _with_link(request: HttpRequest, verb: Callable[[Actor], PasswordLink]) -> HttpResponse:
    """Answers with the page itself, not a redirect: the link is shown this once."""
    try:
        return _page(request, link=verb(actor_of(request)))
    except TrainmasterError as error:
        return _page(request, problems={error.code: error.sentence}, status=error.kind.http)


@for_admins
@require_POST
def deactivate(request: HttpRequest, username: str) -> HttpResponse:
    return _carry_out(request, lambda actor: verbs.deactivate(actor, username), f"{username} is deactivated.")


@for_admins
@require_POST
def set_admin(request: HttpRequest, username: str) -> HttpResponse:
    is_admin = request.POST.get("admin") == "true"
    done = f"{username} is {'now' if is_admin else 'no longer'} a platform admin."
    return _carry_out(request, lambda actor: verbs.set_admin(actor, username, is_admin), done)


def _carry_out(request: HttpRequest, verb: Callable[[Actor], None], done: str) -> HttpResponse:
    return carry_out(
        request,
        lambda: verb(actor_of(request)),
        done,
        redirect("admin_pages:users"),
        lambda problems, status: _page(request, problems=problems, status=status),
    )
