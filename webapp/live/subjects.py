"""What can be watched live, and who may watch it. Each app registers the kinds it owns when it starts."""

import re
from collections.abc import Callable
from typing import Any

from django.core.cache import cache

MayWatch = Callable[[Any, str], bool]  # (user, subject id) → may this user watch it?

# How long it is known when a subject changed last; pages older than that fetch everything when they come back.
CHANGED_SECONDS = 300

_WATCHERS: dict[str, MayWatch] = {}


def register(kind: str, may_watch: MayWatch) -> None:
    _WATCHERS[kind] = may_watch


def may_watch(user: Any, subject: str) -> bool:
    kind, _, subject_id = subject.partition(":")
    check = _WATCHERS.get(kind)
    return check is not None and check(user, subject_id)


def group(subject: str) -> str:
    """The channel group of a subject; group names allow fewer characters than ids do."""
    return "live." + re.sub(r"[^A-Za-z0-9_.-]", ".", subject)[:90]


def changed(subject: str, at_ms: int) -> None:
    cache.set(_changed_key(subject), at_ms, CHANGED_SECONDS)


def changed_since(subject: str, since_ms: int) -> bool:
    at_ms = cache.get(_changed_key(subject))
    return at_ms is not None and int(at_ms) >= since_ms


def _changed_key(subject: str) -> str:
    return f"live:changed:{subject}"
