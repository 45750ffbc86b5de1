"""Verbs on users, teams, departments and secrets. Each is one transaction with its event."""

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
    """Fields that are left out stay as they are."""

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
    """Creates an account. Without a password its owner sets one with the link of `users.invite`."""
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
    """Changes the actor's own password, or as an admin anybody's. Every other session of the user ends."""
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
    """Changes the actor's own names and address."""
    user = _user(actor.username)
    user.first_name, user.last_name, user.email = first_name, last_name, email
    user.save(update_fields=["first_name", "last_name", "email"])
    events.record("ProfileChanged", f"user:{actor.username}", actor=actor.name)


@transaction.atomic
def choose_mail(actor: Actor, **wanted: bool) -> None:
    """Sets which mail the actor gets, by the names of mailing.Kind; others stay as they are."""
    user = _user(actor.username)
    for kind, on in wanted.items():
        setattr(user, Kind(kind), on)
    user.save(update_fields=list(wanted))
    events.record("MailChosen", f"user:{actor.username}", actor=actor.name, data=wanted)


def check_login(request: HttpRequest, username: str, password: str) -> User | None:
    """Returns the user with this password, or None. Raises rate_limited after too many failures."""
    device = origin.known_device(request, username)
    counters = attempts.for_login(username, origin.client_address(request), device)
    attempts.count(counters)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        return None
    attempts.forget(counters)
    return user


def check_password(actor: Actor, password: str) -> bool:
    """Returns whether it is the actor's password. Raises rate_limited after too many failures."""
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
    _lock_departments(parent)
    row = Department(slug=slug, name=name, weight=weight, parent_id=parent)
    _insert(row)
    place = _place(name, weight, parent)
    _record_department("DepartmentAdded", actor, slug, place, {"after": _facts(row)})
    return row


@transaction.atomic
def change_department(actor: Actor, slug: str, **changes: Unpack[DepartmentChanges]) -> None:
    """Renames, weighs or moves a department with everything in it."""
    require(actor, "platform.manage")
    row = _lock_departments(changes.get("parent")).get(slug)
    if row is None:
        raise TrainmasterError("not_found", what=f"department {slug}")
    if difference := _changed(row, changes, "parent"):
        place = _place(row.name, row.weight, row.parent_id)
        _record_department("DepartmentChanged", actor, slug, place, difference)


@transaction.atomic
def delete_department(actor: Actor, slug: str) -> None:
    """Deletes an empty department. Raises department_in_use otherwise."""
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
    _lock_department(department)
    team = Team(slug=slug, name=name, weight=weight, department_id=department)
    _insert(team)
    events.record("TeamCreated", f"team:{slug}", actor=actor.name, team=slug, cause=name, data=_facts(team))
    return team


@transaction.atomic
def change_team(actor: Actor, slug: str, **changes: Unpack[TeamChanges]) -> None:
    require(actor, "platform.manage")
    _lock(slug)
    _lock_department(changes.get("department"))
    row = Team.objects.get(slug=slug)
    if difference := _changed(row, changes, "department"):
        place = _place(row.name, row.weight, row.department_id)
        events.record(
            "TeamChanged", f"team:{slug}", actor=actor.name, team=slug, cause=place, data=difference
        )


@transaction.atomic
def archive_team(actor: Actor, slug: str) -> None:
    """Makes every member a viewer and gives the quotas back. Raises team_in_use while a job has not ended."""
    require(actor, "platform.manage")
    _lock(slug)
    if Team.objects.filter(slug=slug, archived_ms=None).update(archived_ms=now_ms()):
        team_archived.send(Team, team=slug, actor=actor)
        _notify_members(slug)
        events.record("TeamArchived", f"team:{slug}", actor=actor.name, team=slug)


@transaction.atomic
def restore_team(actor: Actor, slug: str) -> None:
    """Gives the members their roles again. The team needs new quotas before it can run jobs."""
    require(actor, "platform.manage")
    _lock(slug)
    if Team.objects.filter(slug=slug).exclude(archived_ms=None).update(archived_ms=None):
        _notify_members(slug)
        events.record("TeamRestored", f"team:{slug}", actor=actor.name, team=slug)


def _notify_members(team: str) -> None:
    """Has open connections check again what their users may see."""
    for user_id in Membership.objects.filter(team=team).values_list("user_id", flat=True):
        sockets.publish(f"person:{user_id}")


@transaction.atomic
def set_role(actor: Actor, team: str, username: str, role: Role) -> None:
    """Adds a user to the team with this role, or changes the role."""
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
    """Removes a member and revokes their tokens for this team. What they made stays with the team."""
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
    """Stores the value under this name, replacing an earlier one. Nothing shows it again."""
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
            "not_found", f"There is no user {username}; a platform admin creates the account first"
        )
    return user


def _lock_departments(parent: str | None) -> dict[str, Department]:
    """Locks all departments in one order until the transaction ends, against circles made in parallel."""
    rows = {row.slug: row for row in Department.objects.select_for_update().order_by("slug")}
    if parent is not None and parent not in rows:
        raise _no_department(parent)
    return rows


def _lock_department(slug: str | None) -> None:
    """Locks a department against deletion until the transaction ends."""
    if slug is not None and Department.objects.select_for_update().filter(slug=slug).first() is None:
        raise _no_department(slug)


def _no_department(slug: str) -> TrainmasterError:
    return TrainmasterError("not_found", f"There is no department {slug}; make it first, or give none")


def _facts(row: Department | Team) -> dict[str, Any]:
    """Returns the fields that the audit log keeps."""
    above = {"parent_id": row.parent_id} if isinstance(row, Department) else {"department": row.department_id}
    return {"name": row.name, "weight": row.weight, **above}


def _changed(row: Department | Team, changes: Mapping[str, Any], above: str) -> dict[str, Any]:
    """Applies the changes; returns the fields before and after, or {}. `above`: the key of the department."""
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
    """Validates each field, and that departments make no circle. Raises request_invalid."""
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
    """Serialises changes of one team's members, so that its last lead stays."""
    if Team.objects.select_for_update().filter(slug=team).first() is None:
        raise TrainmasterError("not_found", what=f"team {team}")


def _refuse_leaving_no_lead(team: str, username: str) -> None:
    if not Membership.objects.filter(team=team, role=Role.LEAD).exclude(user__username=username).exists():
        why = f"{username} is the only lead of {team}; make somebody else a lead first"
        raise TrainmasterError("request_invalid", f"Not possible: {why}")
