"""What can be done to people, teams and team secrets. Each verb is one transaction with its event."""

import re
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from platform_core.errors import TrainmasterError
from webapp.accounts import attempts, origin, queries
from webapp.accounts.mailing import Kind
from webapp.accounts.models import ApiToken, Department, Membership, Role, Team, TeamSecret, User
from webapp.accounts.permissions import Actor, require
from webapp.accounts.sealing import seal
from webapp.accounts.signals import secret_deleted, team_archived
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.sockets import services as sockets

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}", re.ASCII)
SECRET_BYTES = (4, 64 * 1024)  # what is shorter than four characters could not be masked in a log


class DepartmentChanges(TypedDict, total=False):
    """What is not given stays."""

    name: str
    weight: int
    parent: str | None  # None: the top


class TeamChanges(TypedDict, total=False):
    name: str
    weight: int
    department: str | None  # None: none


def create_user(
    actor: Actor,
    username: str,
    password: str | None,
    *,
    email: str = "",
    full_name: str = "",
    is_admin: bool = False,
) -> User:
    """Without a password nobody signs in before they have set one with the link of users.password_link."""
    require(actor, "platform.manage")
    first, _, last = full_name.partition(" ")
    user = User(username=username, email=email, first_name=first, last_name=last)
    user.is_staff = user.is_superuser = is_admin
    user.set_password(password)
    _check(user, f"The user {username!r}")
    if User.objects.filter(username__iexact=username).exists():
        raise TrainmasterError("duplicate_name", what="User", name=username)
    try:
        with transaction.atomic():
            user.save()
            events.record(
                "UserCreated", f"user:{username}", actor=actor.name, cause=username, data={"admin": is_admin}
            )
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what="User", name=username) from error
    return user


@transaction.atomic
def change_password(actor: Actor, username: str, password: str) -> User:
    """The person's own, or anybody's by an admin. Every other session of the person ends with it."""
    if actor.username != username:
        require(actor, "platform.manage")
    user = _user(username)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise TrainmasterError(
            "request_invalid", what="The password", why=" ".join(error.messages)
        ) from error
    user.set_password(password)
    user.save(update_fields=["password"])
    events.record("PasswordChanged", f"user:{username}", actor=actor.name)
    return user


@transaction.atomic
def change_profile(actor: Actor, *, first_name: str, last_name: str, email: str) -> None:
    """The person's own names and address."""
    user = _user(actor.username)
    user.first_name, user.last_name, user.email = first_name, last_name, email
    user.save(update_fields=["first_name", "last_name", "email"])
    events.record("ProfileChanged", f"user:{actor.username}", actor=actor.name)


@transaction.atomic
def choose_mail(actor: Actor, **wanted: bool) -> None:
    """Which mail the person gets; the names are those of mailing.Kind, and what is not given stays."""
    user = _user(actor.username)
    for kind, on in wanted.items():
        setattr(user, Kind(kind), on)
    user.save(update_fields=list(wanted))
    events.record("MailChosen", f"user:{actor.username}", actor=actor.name, data=wanted)


def check_login(request: HttpRequest, username: str, password: str) -> User | None:
    """The person whose password this is, or None. Raises rate_limited for whoever guesses."""
    device = origin.known_device(request, username)
    counters = attempts.for_login(username, origin.client_address(request), device)
    attempts.count(counters)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        return None
    attempts.forget(counters)
    return user


def check_password(actor: Actor, password: str) -> bool:
    """Whether it is the actor's own. Raises rate_limited for whoever guesses."""
    counters = attempts.for_password(actor.username)
    attempts.count(counters)
    good = queries.user(actor.username).check_password(password)
    if good:
        attempts.forget(counters)
    return good


@transaction.atomic
def create_department(
    actor: Actor, slug: str, name: str, weight: int = 1, parent: str | None = None
) -> Department:
    require(actor, "platform.manage")
    _departments_held_still(parent)
    row = Department(slug=slug, name=name, weight=weight, parent_id=parent)
    _insert(row)
    place = _place(name, weight, parent)
    _record_department("DepartmentAdded", actor, slug, place, {"after": _facts(row)})
    return row


@transaction.atomic
def change_department(actor: Actor, slug: str, **changes: Unpack[DepartmentChanges]) -> None:
    """All that is within it moves with it."""
    require(actor, "platform.manage")
    row = _departments_held_still(changes.get("parent")).get(slug)
    if row is None:
        raise TrainmasterError("not_found", what=f"department {slug}")
    if difference := _changed(row, changes, "parent"):
        place = _place(row.name, row.weight, row.parent_id)
        _record_department("DepartmentChanged", actor, slug, place, difference)


@transaction.atomic
def delete_department(actor: Actor, slug: str) -> None:
    """One in which nothing stands any more."""
    require(actor, "platform.manage")
    row = Department.objects.select_for_update().filter(slug=slug).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"department {slug}")
    inside = [
        *(f"team {team}" for team in row.teams.order_by("slug").values_list("slug", flat=True)),
        *(f"department {child}" for child in row.within.order_by("slug").values_list("slug", flat=True)),
    ]
    if inside:
        raise TrainmasterError("department_in_use", department=slug, inside=", ".join(inside))
    row.delete()
    _record_department("DepartmentDeleted", actor, slug, row.name, {"before": _facts(row)})


@transaction.atomic
def create_team(actor: Actor, slug: str, name: str, weight: int = 1, department: str | None = None) -> Team:
    require(actor, "platform.manage")
    _hold_department(department)
    team = Team(slug=slug, name=name, weight=weight, department_id=department)
    _insert(team)
    events.record("TeamCreated", f"team:{slug}", actor=actor.name, team=slug, cause=name, data=_facts(team))
    return team


@transaction.atomic
def change_team(actor: Actor, slug: str, **changes: Unpack[TeamChanges]) -> None:
    require(actor, "platform.manage")
    _lock(slug)
    _hold_department(changes.get("department"))
    row = Team.objects.get(slug=slug)
    if difference := _changed(row, changes, "department"):
        place = _place(row.name, row.weight, row.department_id)
        events.record(
            "TeamChanged", f"team:{slug}", actor=actor.name, team=slug, cause=place, data=difference
        )


@transaction.atomic
def archive_team(actor: Actor, slug: str) -> None:
    """Its members only read from now on, its quotas are given back. Raises team_in_use while a job has not ended."""
    require(actor, "platform.manage")
    _lock(slug)
    if Team.objects.filter(slug=slug, archived_ms=None).update(archived_ms=now_ms()):
        team_archived.send(Team, team=slug, actor=actor)
        _notify_members(slug)
        events.record("TeamArchived", f"team:{slug}", actor=actor.name, team=slug)


@transaction.atomic
def restore_team(actor: Actor, slug: str) -> None:
    """Its members have their roles again. It needs new quotas before it can run jobs."""
    require(actor, "platform.manage")
    _lock(slug)
    if Team.objects.filter(slug=slug).exclude(archived_ms=None).update(archived_ms=None):
        _notify_members(slug)
        events.record("TeamRestored", f"team:{slug}", actor=actor.name, team=slug)


def _notify_members(team: str) -> None:
    """What they may do has changed: their open connections are checked again."""
    for user_id in Membership.objects.filter(team=team).values_list("user_id", flat=True):
        sockets.publish(f"person:{user_id}")


@transaction.atomic
def set_role(actor: Actor, team: str, username: str, role: Role) -> None:
    """Bring a person into the team with this role, or change the role they have."""
    require(actor, "team.manage_members", team)
    user = _user(username)
    _lock(team)
    membership = Membership.objects.filter(team=team, user=user).first()
    before = membership.role if membership else None
    if before == role:
        return
    if before == Role.LEAD:
        _refuse_leaving_no_lead(team, username)
    Membership.objects.update_or_create(team_id=team, user=user, defaults={"role": role})
    sockets.publish(f"person:{user.pk}")
    events.record(
        "RoleChanged" if before else "MemberAdded",
        f"team:{team}",
        actor=actor.name,
        team=team,
        cause=f"{username}, {before} → {role}" if before else f"{username} as {role}",
        data={"user": username, "before": before, "after": str(role)},
    )


@transaction.atomic
def remove_member(actor: Actor, team: str, username: str) -> None:
    """Their tokens for this team end with it; what they made stays with the team."""
    require(actor, "team.manage_members", team)
    _lock(team)
    membership = Membership.objects.filter(team=team, user__username=username).first()
    if membership is None:
        raise TrainmasterError("not_found", what=f"member {username} of {team}")
    if membership.role == Role.LEAD:
        _refuse_leaving_no_lead(team, username)
    membership.delete()
    sockets.publish(f"person:{membership.user_id}")
    tokens = ApiToken.objects.filter(team=team, user__username=username, revoked_ms=None).update(
        revoked_ms=now_ms()
    )
    events.record(
        "MemberRemoved",
        f"team:{team}",
        actor=actor.name,
        team=team,
        cause=username,
        data={"user": username, "before": membership.role, "tokens_revoked": tokens},
    )


@transaction.atomic
def set_secret(actor: Actor, team: str, name: str, value: str) -> None:
    """Keep the value under this name, in place of an earlier one. Nothing ever shows it again."""
    require(actor, "secret.manage", team)
    if not SECRET_NAME.fullmatch(name):
        why = "use letters, digits and _, as in HF_TOKEN, and do not begin with a digit"
        raise TrainmasterError("request_invalid", what=f"The name {name!r}", why=why)
    low, high = SECRET_BYTES
    if not low <= len(value.encode()) <= high or "\0" in value:
        raise TrainmasterError(
            "request_invalid", what="The value", why=f"it must have {low} to {high:,} bytes"
        )
    row = {"ciphertext": seal(value), "changed_ms": now_ms(), "changed_by": _user(actor.username)}
    _, created = TeamSecret.objects.update_or_create(team_id=team, name=name, defaults=row)
    kind = "SecretAdded" if created else "SecretChanged"
    _record_secret(kind, actor, team, name)


@transaction.atomic
def delete_secret(actor: Actor, team: str, name: str) -> None:
    """Raises secret_in_use while a job that has not ended names it."""
    require(actor, "secret.manage", team)
    deleted, _ = TeamSecret.objects.filter(team=team, name=name).delete()
    if not deleted:
        raise TrainmasterError("not_found", what=f"secret {name}")
    secret_deleted.send(TeamSecret, team=team, name=name)
    _record_secret("SecretDeleted", actor, team, name)


def _record_secret(kind: str, actor: Actor, team: str, name: str) -> None:
    events.record(
        kind, f"secret:{team}/{name}", actor=actor.name, team=team, cause=name, notify=(f"team:{team}",)
    )


def _user(username: str) -> User:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise TrainmasterError(
            "not_found", f"Nobody here is called {username}; an admin makes the account first"
        )
    return user


def _departments_held_still(parent: str | None) -> dict[str, Department]:
    """All, locked in one order until the transaction ends: nobody makes a circle or a hole beside this change."""
    rows = {row.slug: row for row in Department.objects.select_for_update().order_by("slug")}
    if parent is not None and parent not in rows:
        raise _no_department(parent)
    return rows


def _hold_department(slug: str | None) -> None:
    """Nobody deletes it before the transaction ends."""
    if slug is not None and Department.objects.select_for_update().filter(slug=slug).first() is None:
        raise _no_department(slug)


def _no_department(slug: str) -> TrainmasterError:
    return TrainmasterError("not_found", f"There is no department {slug}; make it first, or give none")


def _facts(row: Department | Team) -> dict[str, Any]:
    """As the audit log keeps it."""
    above = {"parent_id": row.parent_id} if isinstance(row, Department) else {"department": row.department_id}
    return {"name": row.name, "weight": row.weight, **above}


def _changed(row: Department | Team, changes: Mapping[str, Any], above: str) -> dict[str, Any]:
    """What it was before and after; empty where it stays as it is. `above` is the change that names a department."""
    before = _facts(row)
    for name, value in changes.items():
        setattr(row, f"{name}_id" if name == above else name, value)
    after = _facts(row)
    if after == before:
        return {}
    _check(row, f"The {type(row).__name__.lower()} {row.slug}")
    row.save(force_update=True)
    return {"before": before, "after": after}


def _check(row: Department | Team | User, what: str) -> None:
    """Each field by itself, and no circle of departments."""
    try:
        row.full_clean(validate_unique=False)
    except ValidationError as error:
        raise TrainmasterError("request_invalid", what=what, why=" ".join(error.messages)) from error


def _insert(row: Department | Team) -> None:
    _check(row, f"The {type(row).__name__.lower()} {row.slug}")
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what=type(row).__name__, name=row.slug) from error


def _place(name: str, weight: int, department: str | None) -> str:
    return f"{name}, weight {weight:,}, in {department or 'no department'}"


def _record_department(kind: str, actor: Actor, slug: str, cause: str, data: dict[str, Any]) -> None:
    events.record(kind, f"department:{slug}", actor=actor.name, cause=cause, data=data)


def _lock(team: str) -> None:
    """Two changes of one team's members happen one after the other, so its last lead cannot slip away."""
    if Team.objects.select_for_update().filter(slug=team).first() is None:
        raise TrainmasterError("not_found", what=f"team {team}")


def _refuse_leaving_no_lead(team: str, username: str) -> None:
    if not Membership.objects.filter(team=team, role=Role.LEAD).exclude(user__username=username).exists():
        why = f"{username} is the only lead of {team}; make somebody else a lead first"
        raise TrainmasterError("request_invalid", f"Not possible: {why}")
