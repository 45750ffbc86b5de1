"""What can be watched live, and who may watch it. Each app registers the kinds it owns when it starts."""

import re
from collections.abc import Callable
from typing import Any

MayWatch = Callable[[Any, str], bool]  # (user, subject id) → may this user watch it?

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
