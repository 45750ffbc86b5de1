"""A pass with which a page asks the router for the person who looks at it: it lives for a minute, in no browser."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.core import signing

from webapp.accounts.models import User

PREFIX = "page_"
_SALT = "webapp.serving.passes"
SECONDS = 60


def issue(username: str) -> str:
    return PREFIX + signing.dumps(username, salt=_SALT)


def holder(text: str) -> User | None:
    """None for what is no pass, or one that is older than a minute."""
    try:
        username = signing.loads(text.removeprefix(PREFIX), salt=_SALT, max_age=SECONDS)
    except signing.BadSignature:
        return None
    user: User | None = get_user_model().objects.filter(username=username, is_active=True).first()
    return user
