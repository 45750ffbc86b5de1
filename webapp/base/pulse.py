"""The pulse of the programs that carry out tasks: when one last began a task, and how long that had waited.

Scheduler and coordinator have a queue each, the worker has the others. What waits for sources of members is not
counted: it may wait for its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache

from webapp.base.identity import now_ms

HEADER = "sent_ms"
OF_QUEUES = {"scheduling": "scheduler", "coordination": "coordinator"}
WORKER = "worker"
UNCOUNTED = "sources"
PROGRAMS = (*OF_QUEUES.values(), WORKER)


@dataclass(frozen=True, slots=True)
class Pulse:
    at_ms: int
    lag_ms: int


def stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Before a task is published: its message says when."""
    if headers is not None:
        headers[HEADER] = now_ms()


def beat(task: Any = None, **_: Any) -> None:
    """Before a program carries out a task."""
    request = getattr(task, "request", None)
    queue = (getattr(request, "delivery_info", None) or {}).get("routing_key", "")
    if queue == UNCOUNTED:
        return
    sent_ms, now = getattr(request, HEADER, None), now_ms()
    lag_ms = max(0, now - int(sent_ms)) if sent_ms is not None else 0
    keep(OF_QUEUES.get(queue, WORKER), Pulse(now, lag_ms))


def alive(part: str) -> None:
    """Said every few seconds by a part of the platform that has nobody else to tell of it."""
    cache.set(f"pulse:{part}", now_ms(), None)


def silence_ms(part: str, at_ms: int) -> int | None:
    """How long ago it was last said; None where it never was."""
    said_ms = cache.get(f"pulse:{part}")
    return None if said_ms is None else max(0, at_ms - said_ms)


def keep(program: str, pulse: Pulse) -> None:
    cache.set(_key(program), (pulse.at_ms, pulse.lag_ms), None)


def last() -> Mapping[str, Pulse]:
    """Of each program that has carried out a task."""
    found = cache.get_many([_key(program) for program in PROGRAMS])
    return {program: Pulse(*found[key]) for program in PROGRAMS if (key := _key(program)) in found}


def _key(program: str) -> str:
    return f"workers:last-task:{program}"
