"""When the scheduler last finished a round, even one that changed nothing, how long it took and what it decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.core.cache import cache

from platform_core.scheduling.decisions import Plan
from webapp.base import lease
from webapp.base.traffic import COUNTER

_LAST = "scheduling:last-round"
_ROUNDS = "scheduling:rounds"
DECISIONS = "decisions"  # tallied by kind


@dataclass(frozen=True, slots=True)
class LastRound:
    at_ms: int
    took_ms: int


def finished(at_ms: int, took_ms: int) -> None:
    cache.set(_LAST, (at_ms, took_ms), None)
    if not cache.add(_ROUNDS, 1, None):
        cache.incr(_ROUNDS)


def decided(plan: Plan) -> None:
    """Counts what a round decided, by kind: jobs to place, to wait and to stop, with the kind of stop."""
    counts = Counter({"place": len(plan.placements), "wait": len(plan.waits)})
    counts.update(stop.kind.value for stop in plan.stops)
    COUNTER.tally(DECISIONS, {kind: count for kind, count in counts.items() if count})


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
