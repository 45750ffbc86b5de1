"""What can be watched live, and who may watch it. Each app registers the kinds it owns when it starts."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.core.cache import cache

MayWatch = Callable[[Any, str], bool]  # (user, subject id) → may this user watch it?
Numbers = Callable[[str], Mapping[str, str]]  # subject id → what its page shows, by the name it has there

# How long it is known when a subject changed last; pages older than that fetch everything when they come back.
CHANGED_SECONDS = 300

_WATCHERS: dict[str, MayWatch] = {}
_NUMBERS: dict[str, Numbers] = {}


def register(kind: str, may_watch: MayWatch, numbers: Numbers | None = None) -> None:
    """With `numbers`, a page that is told of a change gets what is new of them with it, instead of fetching itself."""
    if kind in _WATCHERS:
        raise ValueError(
            f"two apps register live subjects of the kind {kind!r}: a second rule would replace the first"
        )
    _WATCHERS[kind] = may_watch
    if numbers is not None:
        _NUMBERS[kind] = numbers


def may_watch(user: Any, subject: str) -> bool:
    kind, _, subject_id = subject.partition(":")
    check = _WATCHERS.get(kind)
    return check is not None and check(user, subject_id)


def has_numbers(subject: str) -> bool:
    return subject.partition(":")[0] in _NUMBERS


def numbers(subject: str) -> Mapping[str, str]:
    kind, _, subject_id = subject.partition(":")
    return _NUMBERS[kind](subject_id)


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
