"""Personal API tokens, for one team or, for platform admins, the whole platform. Only the digest is kept."""

from dataclasses import dataclass

from django.core import signing
from django.db import transaction

from platform_core.errors import TrainmasterError
from webapp.accounts.credentials import digest, new_text
from webapp.accounts.models import ApiToken, Scope, User
from webapp.accounts.permissions import Actor, may, require
from webapp.base.identity import now_ms
from webapp.events import services as events

DAY_MS = 86_400_000
MAX_DAYS = 365
MAX_ADMIN_DAYS = 30  # a stolen one opens the whole platform
# "Last used" is kept to the minute: a busy token must not mean a write for each request.
SEEN_EVERY_MS = 60_000
PASS, PASS_SECONDS = "page_", 60
_SALT = "webapp.accounts.tokens"


@dataclass(frozen=True, slots=True)
class NewToken:
    id: int
    name: str
    text: str
    expires_ms: int


def create_token(actor: Actor, team: str, name: str, days: int) -> NewToken:
    """Creates a token with its owner's role in this team, a lead at most."""
    require(actor, "token.create", team)
    return _create(actor, Scope.TEAM, team, name, days, MAX_DAYS)


def create_admin_token(actor: Actor, name: str, days: int) -> NewToken:
    """Creates a token with the access of its owner, for as long as they are an admin. It cannot create tokens."""
    require(actor, "token.create_admin")
    return _create(actor, Scope.ADMIN, None, name, days, MAX_ADMIN_DAYS)


def create_pass(actor: Actor) -> str:
    """With which a page asks the router for the person who looks at it. It is signed, not kept, and in no browser."""
    return PASS + signing.dumps(actor.username, salt=_SALT)


def holder(text: str) -> User | None:
    """Of a pass; None for what is none, or is older than a minute."""
    try:
        username = signing.loads(text.removeprefix(PASS), salt=_SALT, max_age=PASS_SECONDS)
    except signing.BadSignature:
        return None
    return User.objects.filter(username=username, is_active=True).first()


@transaction.atomic
def _create(actor: Actor, scope: Scope, team: str | None, name: str, days: int, most_days: int) -> NewToken:
    if actor.by_token:
        raise TrainmasterError("not_allowed", "A token cannot make tokens; log in to make one")
    if not name.strip() or len(name) > 80:
        raise TrainmasterError("request_invalid", what="The name", why="it must have 1 to 80 characters")
    if not 1 <= days <= most_days:
        noun = "an admin token" if scope is Scope.ADMIN else "a token"
        raise TrainmasterError(
            "request_invalid", what=f"{days} days", why=f"{noun} is valid for 1 to {most_days} days"
        )
    text, now = new_text(), now_ms()
    token = ApiToken.objects.create(
        user=User.objects.get(username=actor.username),
        scope=scope,
        team_id=team,
        name=name.strip(),
        prefix=text[:8],
        digest=digest(text),
        created_ms=now,
        expires_ms=now + days * DAY_MS,
    )
    events.record(
        "AdminTokenCreated" if scope is Scope.ADMIN else "TokenCreated",
        f"token:{token.pk}",
        actor=actor.name,
        team=team or "",
        cause=f"{token.name}, {days} days",
        data={"name": token.name, "days": days, "scope": scope},
    )
    return NewToken(token.pk, token.name, text, token.expires_ms)


@transaction.atomic
def revoke_token(actor: Actor, token_id: int) -> None:
    tokens = ApiToken.objects.filter(pk=token_id, revoked_ms=None)
    if not may(actor, "platform.manage"):
        tokens = tokens.filter(user__username=actor.username)
    token = tokens.first()
    if token is None or not tokens.update(revoked_ms=now_ms()):
        raise TrainmasterError("not_found", what="token of that number")
    events.record(
        "TokenRevoked",
        f"token:{token_id}",
        actor=actor.name,
        team=token.team_id or "",
        cause=token.name,
        data={"name": token.name, "scope": token.scope},
    )


def find(text: str) -> ApiToken | None:
    """Returns the valid token of this text and records its use."""
    now = now_ms()
    token = (
        ApiToken.objects.select_related("user")
        .filter(digest=digest(text), revoked_ms=None, expires_ms__gt=now)
        .first()
    )
    if token is None or not token.user.is_active:
        return None
    if token.last_used_ms is None or token.last_used_ms < now - SEEN_EVERY_MS:
        ApiToken.objects.filter(pk=token.pk).update(last_used_ms=now)
    return token
