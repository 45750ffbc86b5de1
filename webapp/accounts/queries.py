"""Reads of users, teams and departments. Permissions decide what may be done with them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Count, Q

from platform_core.errors import TrainmasterError
from platform_core.quotas.hierarchy import TOP, Sibling, way
from webapp.accounts.models import ApiToken, Department, Membership, Role, Scope, Team, TeamSecret, User
from webapp.accounts.permissions import Actor, may
from webapp.accounts.sealing import unseal


@dataclass(frozen=True, slots=True)
class TeamView:
    slug: str
    name: str
    weight: int  # among its siblings
    department: str | None = None
    archived_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DepartmentView:
    slug: str
    name: str
    weight: int  # among its siblings
    parent: str | None


@dataclass(frozen=True, slots=True)
class MemberView:
    user_id: int
    username: str
    full_name: str
    role: Role
    last_seen_ms: int | None  # last login


class UserState(StrEnum):
    """Also the filter of the list."""

    ACTIVE = "active"
    INVITED = "invited"  # has not set a password
    DEACTIVATED = "deactivated"


@dataclass(frozen=True, slots=True)
class UserView:
    username: str
    full_name: str
    email: str
    is_admin: bool
    state: UserState
    roles: tuple[tuple[str, Role], ...]  # (team, role), by team
    last_login_ms: int | None


@dataclass(frozen=True, slots=True)
class SecretView:
    """Everything about a secret except its value."""

    name: str
    changed_ms: int
    changed_by: str


@dataclass(frozen=True, slots=True)
class TokenView:
    id: int
    name: str
    scope: Scope
    team: str | None  # None for the scope admin
    prefix: str
    created_ms: int
    expires_ms: int
    last_used_ms: int | None


def actor_of(asker: Any) -> Actor:
    """The actor of a user, of a page's request or of an API request (whose token narrows it to one team).

    Reads the memberships once a request. Raises not_authenticated for nobody.
    """
    known = getattr(asker, "_actor", None)
    if known is not None:
        return cast(Actor, known)
    user = getattr(asker, "user", asker)
    if not user.is_authenticated or not user.is_active:
        raise TrainmasterError("not_authenticated")
    token = getattr(asker, "auth", None)
    actor = _of_token(token) if isinstance(token, ApiToken) else _of_person(user)
    if asker is not user:
        asker._actor = actor
    return actor


def _of_person(user: User) -> Actor:
    rows = Membership.objects.filter(user=user).values_list("team_id", "role", "team__archived_ms")
    roles = {team: _role(role, archived_ms) for team, role, archived_ms in rows}
    return Actor(user.username, roles, is_admin=user.is_superuser)


def _role(role: str, archived_ms: int | None) -> Role:
    """Everybody is a viewer of an archived team."""
    return Role(role) if archived_ms is None else Role.VIEWER


def _of_token(token: ApiToken) -> Actor:
    """A team token of an admin acts as a lead of its team, so a leaked one does not open the platform.

    The role is read now: a token never does more than its owner may do at this moment.
    """
    if token.scope == Scope.ADMIN:
        return Actor(token.user.username, is_admin=token.user.is_superuser, by_token=True)
    memberships = Membership.objects.filter(user=token.user_id, team=token.team_id)
    membership = memberships.values_list("role", "team__archived_ms").first()
    role = _role(*membership) if membership else Role.LEAD if token.user.is_superuser else None
    roles = {} if role is None else {str(token.team_id): role}
    return Actor(token.user.username, roles, token_team=token.team_id, by_token=True)


def may_watch_team(action: str) -> Callable[[Any, str], bool]:
    """For `sockets.subjects.register`: the action that opens a subject named by a team."""

    def may_watch(user: Any, team_slug: str) -> bool:
        return may(actor_of(user), action, team_slug)

    return may_watch


def users(search: str = "", state: str = "", limit: int = 200) -> tuple[tuple[UserView, ...], int]:
    """Returns the first accounts by username and the count of all. `search` matches names and addresses."""
    rows = User.objects.order_by("username")
    if search:
        name = (
            Q(username__icontains=search) | Q(first_name__icontains=search) | Q(last_name__icontains=search)
        )
        rows = rows.filter(name | Q(email__icontains=search))
    if state:
        rows = rows.filter(is_active=state != UserState.DEACTIVATED)
        without_password = Q(password__startswith=UNUSABLE_PASSWORD_PREFIX)
        rows = rows.filter(without_password) if state == UserState.INVITED else rows
        rows = rows.exclude(without_password) if state == UserState.ACTIVE else rows
    shown = rows.prefetch_related("membership_set")[:limit]
    return tuple(_user_view(row) for row in shown), rows.count()


def _user_view(row: User) -> UserView:
    memberships = sorted((member.team_id, Role(member.role)) for member in row.membership_set.all())
    signs_in = UserState.ACTIVE if row.has_usable_password() else UserState.INVITED
    return UserView(
        username=row.username,
        full_name=row.get_full_name(),
        email=row.email,
        is_admin=row.is_superuser,
        state=signs_in if row.is_active else UserState.DEACTIVATED,
        roles=tuple(memberships),
        last_login_ms=_milliseconds(row.last_login),
    )


def _milliseconds(moment: datetime | None) -> int | None:
    return int(moment.timestamp() * 1000) if moment else None


def user(username: str) -> User:
    """Returns the row, for a foreign key. Raises not_found."""
    row = User.objects.filter(username=username).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"user {username}")
    return row


def user_key(username: str) -> int:
    """Returns the primary key of a user. Raises not_found."""
    return int(user(username).pk)


def user_keys(usernames: Iterable[str]) -> dict[str, int]:
    """Username → primary key; unknown ones are left out."""
    return dict(User.objects.filter(username__in=list(usernames)).values_list("username", "pk"))


def team(slug: str) -> TeamView:
    row = Team.objects.filter(slug=slug).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"team {slug}")
    return _team(row)


def teams(slugs: Iterable[str] | None = None) -> tuple[TeamView, ...]:
    """Returns these teams, or all of them, by name, without archived ones."""
    rows = Team.objects.filter(archived_ms=None).order_by("name")
    if slugs is not None:
        rows = rows.filter(slug__in=list(slugs))
    return tuple(_team(row) for row in rows)


def archived_teams() -> tuple[TeamView, ...]:
    return tuple(_team(row) for row in Team.objects.exclude(archived_ms=None).order_by("name"))


def member_counts() -> dict[str, int]:
    """Team → number of members; teams without any are left out."""
    rows = Membership.objects.order_by().values_list("team_id").annotate(Count("id"))
    return dict(rows)


def _team(row: Team) -> TeamView:
    return TeamView(row.slug, row.name, row.weight, row.department_id, row.archived_ms)


def departments() -> tuple[DepartmentView, ...]:
    rows = Department.objects.order_by("name").values_list("slug", "name", "weight", "parent_id")
    return tuple(DepartmentView(*row) for row in rows)


def departments_seen_by(actor: Actor) -> dict[str, DepartmentView]:
    """Returns all departments for an admin, and for others those above their own teams."""
    known = {view.slug: view for view in departments()}
    if actor.sees is None:
        return known
    above = {slug for team in teams(actor.sees) for slug in _way(known, team.department)}
    return {slug: view for slug, view in known.items() if slug in above}


def departments_above(team: TeamView) -> tuple[DepartmentView, ...]:
    """Returns the departments above a team, from the top down."""
    if team.department is None:
        return ()
    known = {view.slug: view for view in departments()}
    return tuple(known[slug] for slug in _way(known, team.department))


def _way(known: Mapping[str, DepartmentView], department: str | None) -> tuple[str, ...]:
    parents = {slug: Sibling(view.weight, view.parent or TOP) for slug, view in known.items()}
    return way(parents, department or TOP)


def members(team_slug: str) -> tuple[MemberView, ...]:
    """Returns the members, leads first, then by name."""
    rank = {Role.LEAD: 0, Role.MEMBER: 1, Role.VIEWER: 2}
    rows = Membership.objects.filter(team=team_slug).select_related("user")
    views = [
        MemberView(
            row.user_id,
            row.user.username,
            row.user.get_full_name(),
            Role(row.role),
            _milliseconds(row.user.last_login),
        )
        for row in rows
    ]
    return tuple(sorted(views, key=lambda view: (rank[view.role], view.username)))


def usernames_of(team_slug: str) -> frozenset[str]:
    return frozenset(Membership.objects.filter(team=team_slug).values_list("user__username", flat=True))


def secrets(team_slug: str) -> tuple[SecretView, ...]:
    rows = TeamSecret.objects.filter(team=team_slug).order_by("name")
    return tuple(SecretView(*row) for row in rows.values_list("name", "changed_ms", "changed_by__username"))


def secret_names(team_slug: str) -> frozenset[str]:
    """Returns the names of a team's secrets, to refuse a job when it is submitted, not when it starts."""
    return frozenset(TeamSecret.objects.filter(team=team_slug).values_list("name", flat=True))


def secret_values(team_slug: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the values, for the gateway to send to the agent. Raises secret_unknown for a missing one."""
    wanted = set(names)
    if not wanted:
        return {}
    rows = TeamSecret.objects.filter(team=team_slug, name__in=wanted)
    values = {row.name: unseal(bytes(row.ciphertext), f"{team_slug}/{row.name}") for row in rows}
    for name in sorted(wanted - values.keys()):
        raise TrainmasterError("secret_unknown", team=team_slug, name=name)
    return values


def tokens(username: str) -> tuple[TokenView, ...]:
    """Returns the tokens that were not revoked, expired ones too, newest first."""
    rows = ApiToken.objects.filter(user__username=username, revoked_ms=None).order_by("-created_ms", "-id")
    fields = ("id", "name", "scope", "team_id", "prefix", "created_ms", "expires_ms", "last_used_ms")
    return tuple(TokenView(*row) for row in rows.values_list(*fields))
