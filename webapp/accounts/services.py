"""What can be done to people, teams and team secrets. Each verb is one transaction with its event."""

import re

from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from platform_core.errors import TrainmasterError
from webapp.accounts import attempts
from webapp.accounts.models import ApiToken, Department, Membership, Role, Team, TeamSecret, User
from webapp.accounts.permissions import Actor, require
from webapp.accounts.sealing import seal
from webapp.live import services as live
from webapp.live.identity import now_ms

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}", re.ASCII)
SECRET_BYTES = (4, 64 * 1024)  # what is shorter than four characters could not be masked in a log


def create_user(
    actor: Actor,
    username: str,
    password: str,
    *,
    email: str = "",
    full_name: str = "",
    is_admin: bool = False,
) -> User:
    require(actor, "platform.manage")
    first, _, last = full_name.partition(" ")
    user = User(username=username, email=email, first_name=first, last_name=last)
    user.is_staff = user.is_superuser = is_admin
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
            live.record(
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
    live.record("PasswordChanged", f"user:{username}", actor=actor.name)
    return user


@transaction.atomic
def change_profile(actor: Actor, *, first_name: str, last_name: str, email: str) -> None:
    """The person's own names and address."""
    user = _user(actor.username)
    user.first_name, user.last_name, user.email = first_name, last_name, email
    user.save(update_fields=["first_name", "last_name", "email"])
    live.record("ProfileChanged", f"user:{actor.username}", actor=actor.name)


def check_login(request: HttpRequest, username: str, password: str) -> User | None:
    """The person whose password this is, or None. Raises rate_limited for whoever guesses."""
    address = request.META.get("REMOTE_ADDR", "")
    attempts.count(username, address)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        return None
    attempts.forget(username, address)
    return user


@transaction.atomic
def set_department(actor: Actor, slug: str, name: str, weight: int = 1, parent: str | None = None) -> None:
    """Make a department, or rename, weigh or move one: with all that is within it, so never into that."""
    require(actor, "platform.manage")
    _require_department(parent)
    before = Department.objects.filter(slug=slug).values("name", "weight", "parent_id").first()
    row = Department(slug=slug, name=name, weight=weight, parent_id=parent)
    try:
        row.full_clean(validate_unique=False)
    except ValidationError as error:
        raise TrainmasterError(
            "request_invalid", what=f"The department {slug}", why=" ".join(error.messages)
        ) from error
    row.save()
    after = {"name": name, "weight": weight, "parent_id": parent}
    live.record(
        "DepartmentChanged" if before else "DepartmentAdded",
        f"department:{slug}",
        actor=actor.name,
        cause=f"{name}, weight {weight}, in {parent or 'no other'}",
        data={"before": before, "after": after},
    )


def create_team(actor: Actor, slug: str, name: str, weight: int = 1, department: str | None = None) -> Team:
    require(actor, "platform.manage")
    _require_department(department)
    try:
        with transaction.atomic():
            team = Team.objects.create(slug=slug, name=name, weight=weight, department_id=department)
            live.record(
                "TeamCreated",
                f"team:{slug}",
                actor=actor.name,
                team=slug,
                cause=name,
                data={"weight": weight, "department": department},
            )
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what="Team", name=slug) from error
    return team


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
    live.record(
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
    tokens = ApiToken.objects.filter(team=team, user__username=username, revoked_ms=None).update(
        revoked_ms=now_ms()
    )
    live.record(
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
    require(actor, "secret.manage", team)
    deleted, _ = TeamSecret.objects.filter(team=team, name=name).delete()
    if not deleted:
        raise TrainmasterError("not_found", what=f"secret {name}")
    _record_secret("SecretDeleted", actor, team, name)


def _record_secret(kind: str, actor: Actor, team: str, name: str) -> None:
    live.record(
        kind, f"secret:{team}/{name}", actor=actor.name, team=team, cause=name, notify=(f"team:{team}",)
    )


def _user(username: str) -> User:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise TrainmasterError(
            "not_found", f"Nobody here is called {username}; an admin makes the account first"
        )
    return user


def _require_department(slug: str | None) -> None:
    if slug is not None and not Department.objects.filter(slug=slug).exists():
        raise TrainmasterError("not_found", f"There is no department {slug}; make it first, or give none")


def _lock(team: str) -> None:
    """Two changes of one team's members happen one after the other, so its last lead cannot slip away."""
    if Team.objects.select_for_update().filter(slug=team).first() is None:
        raise TrainmasterError("not_found", what=f"team {team}")


def _refuse_leaving_no_lead(team: str, username: str) -> None:
    if not Membership.objects.filter(team=team, role=Role.LEAD).exclude(user__username=username).exists():
        why = f"{username} is the only lead of {team}; make somebody else a lead first"
        raise TrainmasterError("request_invalid", f"Not possible: {why}")
