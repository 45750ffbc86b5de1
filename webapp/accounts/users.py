"""What platform admins do with accounts: passwords, access and the admin right. Each verb is one transaction."""

from dataclasses import dataclass

from django.contrib.auth.tokens import default_token_generator
from django.db import transaction
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from platform_core.errors import TrainmasterError
from webapp.accounts import services
from webapp.accounts.models import ApiToken, Role, User
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.sockets import services as sockets


@dataclass(frozen=True, slots=True)
class PasswordLink:
    """Opens the form that sets a password, once, for settings.PASSWORD_RESET_TIMEOUT seconds."""

    username: str
    uid: str
    token: str


@transaction.atomic
def invite(
    actor: Actor,
    username: str,
    *,
    email: str = "",
    full_name: str = "",
    is_admin: bool = False,
    team: str = "",
    role: Role = Role.MEMBER,
) -> PasswordLink:
    """Creates an account without a password; its owner sets one with the link. `team`: "" for none yet."""
    user = services.create_user(actor, username, None, email=email, full_name=full_name, is_admin=is_admin)
    if team:
        services.set_role(actor, team, username, role)
    return _link(user)


@transaction.atomic
def reset_password(actor: Actor, username: str) -> PasswordLink:
    """Ends the old password and every session. API tokens stay valid."""
    user = _locked(actor, username)
    if not user.is_active:
        raise TrainmasterError("request_invalid", f"{username} is deactivated; reactivate the account first")
    _end_sessions(user)
    user.save(update_fields=["password"])
    _record("PasswordReset", actor, username)
    return _link(user)


@transaction.atomic
def deactivate(actor: Actor, username: str) -> None:
    """Ends sessions and API tokens. Jobs keep running, and everything the person made stays with the team."""
    user = _locked(actor, username)
    if not user.is_active:
        return
    if user.is_superuser:
        _refuse_last_admin(username)
    user.is_active = False
    _end_sessions(user)
    user.save(update_fields=["is_active", "password"])
    revoked = ApiToken.objects.filter(user=user, revoked_ms=None).update(revoked_ms=now_ms())
    _record("UserDeactivated", actor, username, {"tokens_revoked": revoked})


@transaction.atomic
def reactivate(actor: Actor, username: str) -> PasswordLink:
    """Lets the person in again, with a new password. Revoked tokens stay revoked."""
    user = _locked(actor, username)
    if not user.is_active:
        user.is_active = True
        user.save(update_fields=["is_active"])
        _record("UserReactivated", actor, username)
    return _link(user)


@transaction.atomic
def set_admin(actor: Actor, username: str, is_admin: bool) -> None:
    """Gives or takes the right to manage the whole platform. The last active admin keeps it."""
    user = _locked(actor, username)
    if user.is_superuser == is_admin:
        return
    if not is_admin:
        _refuse_last_admin(username)
    user.is_superuser = user.is_staff = is_admin
    user.save(update_fields=["is_superuser", "is_staff"])
    sockets.publish(f"person:{user.pk}")
    _record("AdminGranted" if is_admin else "AdminWithdrawn", actor, username)


def invited(uid: str, token: str) -> User | None:
    """The person whose link this is; None when it was used, has expired or was never made."""
    try:
        user = User.objects.filter(pk=int(urlsafe_base64_decode(uid)), is_active=True).first()
    except (ValueError, OverflowError):
        return None
    return user if user is not None and default_token_generator.check_token(user, token) else None


@transaction.atomic
def accept(uid: str, token: str, password: str) -> User:
    """Sets the password of the person whose link this is. Raises not_found for a link that is no longer valid."""
    user = invited(uid, token)
    if user is None:
        raise TrainmasterError("not_found", what="password link of this address")
    return services.change_password(Actor(user.username), user.username, password)


def _locked(actor: Actor, username: str) -> User:
    require(actor, "platform.manage")
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise TrainmasterError("not_found", what=f"user {username}")
    return user


def _end_sessions(user: User) -> None:
    """A session carries a digest of the password it began with."""
    user.set_unusable_password()
    sockets.publish(f"person:{user.pk}")


def _refuse_last_admin(username: str) -> None:
    admins = User.objects.select_for_update().filter(is_superuser=True, is_active=True).order_by("pk")
    if [admin.username for admin in admins] == [username]:
        why = f"{username} is the only platform admin; make another user an admin first"
        raise TrainmasterError("request_invalid", f"Not possible: {why}")


def _link(user: User) -> PasswordLink:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return PasswordLink(user.username, uid, default_token_generator.make_token(user))


def _record(kind: str, actor: Actor, username: str, data: dict[str, int] | None = None) -> None:
    events.record(kind, f"user:{username}", actor=actor.name, cause=username, data=data or {})
