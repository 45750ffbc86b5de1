"""Reads of people and teams. Values, not rows; what may be done with them is decided in permissions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

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
    roles = Membership.objects.filter(user=user).values_list("team_id", "role")
    return Actor(user.username, {team: Role(role) for team, role in roles}, is_admin=user.is_superuser)


def _of_token(token: ApiToken) -> Actor:
    """An admin's token works as a lead of its team: one that leaks does not open the platform, unless it was made to.

    What the person may no longer do, no token of theirs does: both are looked at now, not when it was made.
    """
    if token.scope == Scope.ADMIN:
        return Actor(token.user.username, is_admin=token.user.is_superuser, by_token=True)
    role = (
        Membership.objects.filter(user=token.user_id, team=token.team_id)
        .values_list("role", flat=True)
        .first()
    )
    if role is None and token.user.is_superuser:
        role = Role.LEAD
    roles = {} if role is None else {str(token.team_id): Role(role)}
    return Actor(token.user.username, roles, token_team=token.team_id, by_token=True)


def may_watch_team(action: str) -> Callable[[Any, str], bool]:
    """For `live.subjects.register`: who may do this in a team may watch the subject that is named by the team."""

    def may_watch(user: Any, team_slug: str) -> bool:
        return may(actor_of(user), action, team_slug)

    return may_watch


def user(username: str) -> User:
    """The row itself, for a foreign key. Raises not_found."""
    row = User.objects.filter(username=username).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"user {username}")
    return row


def user_key(username: str) -> int:
    """The database key of a person, for rows that belong to them. Raises not_found."""
    return int(user(username).pk)


def team(slug: str) -> TeamView:
    row = Team.objects.filter(slug=slug).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"team {slug}")
    return _team(row)


def teams(slugs: Iterable[str] | None = None) -> tuple[TeamView, ...]:
    """These teams, or all of them, by name."""
    rows = Team.objects.order_by("name")
    if slugs is not None:
        rows = rows.filter(slug__in=list(slugs))
    return tuple(_team(row) for row in rows)


def _team(row: Team) -> TeamView:
    return TeamView(row.slug, row.name, row.weight, row.department_id)


def departments() -> tuple[DepartmentView, ...]:
    rows = Department.objects.order_by("name").values_list("slug", "name", "weight", "parent_id")
    return tuple(DepartmentView(*row) for row in rows)


def departments_seen_by(actor: Actor) -> dict[str, DepartmentView]:
    """All by name for an admin; for others those above their own teams."""
    found = {each.slug: each for each in departments()}
    if actor.sees is None:
        return found
    above = {slug for team in teams(actor.sees) for slug in _way(found, team.department)}
    return {slug: view for slug, view in found.items() if slug in above}


def departments_above(team: TeamView) -> tuple[DepartmentView, ...]:
    """From the top down."""
    if team.department is None:
        return ()
    found = {each.slug: each for each in departments()}
    return tuple(found[slug] for slug in _way(found, team.department))


def _way(found: Mapping[str, DepartmentView], department: str | None) -> tuple[str, ...]:
    parents = {slug: Sibling(view.weight, view.parent or TOP) for slug, view in found.items()}
    return way(parents, department or TOP)


def members(team_slug: str) -> tuple[MemberView, ...]:
    """Leads first, then by name."""
    rank = {Role.LEAD: 0, Role.MEMBER: 1, Role.VIEWER: 2}
    rows = Membership.objects.filter(team=team_slug).select_related("user")
    views = [
        MemberView(
            row.user_id,
            row.user.username,
            row.user.get_full_name(),
            Role(row.role),
            int(row.user.last_login.timestamp() * 1000) if row.user.last_login else None,
        )
        for row in rows
    ]
    return tuple(sorted(views, key=lambda view: (rank[view.role], view.username)))


def secrets(team_slug: str) -> tuple[SecretView, ...]:
    rows = TeamSecret.objects.filter(team=team_slug).order_by("name")
    return tuple(SecretView(*row) for row in rows.values_list("name", "changed_ms", "changed_by__username"))


def secret_names(team_slug: str) -> frozenset[str]:
    """So that a job is refused when it is submitted, not when it starts."""
    return frozenset(TeamSecret.objects.filter(team=team_slug).values_list("name", flat=True))


def secret_values(team_slug: str, names: Iterable[str]) -> dict[str, str]:
    """The values themselves, for the gateway to hand to the agent. Raises secret_unknown for a missing one."""
    wanted = set(names)
    if not wanted:
        return {}
    rows = TeamSecret.objects.filter(team=team_slug, name__in=wanted)
    values = {row.name: unseal(bytes(row.ciphertext), f"{team_slug}/{row.name}") for row in rows}
    for name in sorted(wanted - values.keys()):
        raise TrainmasterError("secret_unknown", team=team_slug, name=name)
    return values


def tokens(username: str) -> tuple[TokenView, ...]:
    """The person's tokens that were not revoked, newest first; an expired one stays listed until then."""
    rows = ApiToken.objects.filter(user__username=username, revoked_ms=None).order_by("-created_ms", "-id")
    fields = ("id", "name", "scope", "team_id", "prefix", "created_ms", "expires_ms", "last_used_ms")
    return tuple(TokenView(*row) for row in rows.values_list(*fields))
