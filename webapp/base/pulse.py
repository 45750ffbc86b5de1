"""The pulse of the workers: when one last began a task, and how long the newest task had waited in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.cache import cache

from webapp.base.identity import now_ms

_LAST = "workers:last-task"
HEADER = "sent_ms"


@dataclass(frozen=True, slots=True)
class Pulse:
    at_ms: int
    lag_ms: int


def stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Before a task is published: its message says when."""
    if headers is not None:
        headers[HEADER] = now_ms()


def beat(task: Any = None, **_: Any) -> None:
    """Before a worker carries out a task."""
    now = now_ms()
    sent_ms = getattr(task.request, HEADER, None) if task is not None else None
    cache.set(_LAST, (now, max(0, now - int(sent_ms)) if sent_ms is not None else 0), None)


def alive(part: str) -> None:
    """Said every few seconds by a part of the platform that has nobody else to tell of it."""
    cache.set(f"pulse:{part}", now_ms(), None)


def silence_ms(part: str, at_ms: int) -> int | None:
    """How long ago it was last said; None where it never was."""
    said_ms = cache.get(f"pulse:{part}")
    return None if said_ms is None else max(0, at_ms - said_ms)


def last() -> Pulse | None:
    found = cache.get(_LAST)
    return Pulse(*found) if found else None
