"""When the scheduler last finished a round and how long it took, whether or not the round changed anything."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.cache import cache

from webapp.base import lease

_LAST = "scheduling:last-round"
_ROUNDS = "scheduling:rounds"


@dataclass(frozen=True, slots=True)
class LastRound:
    at_ms: int
    took_ms: int


def finished(at_ms: int, took_ms: int) -> None:
    cache.set(_LAST, (at_ms, took_ms), None)
    if not cache.add(_ROUNDS, 1, None):
        cache.incr(_ROUNDS)


def last_round() -> LastRound | None:
    """None before the first round since the cache began."""
    found = cache.get(_LAST)
    return LastRound(*found) if found else None


def rounds() -> int:
    """How many rounds have finished since the cache began."""
    return int(cache.get(_ROUNDS) or 0)


def is_led() -> bool:
    """Whether somebody holds the lease of the scheduler now."""
    return lease.is_held("scheduler")
