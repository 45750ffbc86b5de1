"""Who calls: tokens of teams, each looked up once in a while, and the rate of each caller."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from webapp.accounts import tokens
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of

KEPT_SECONDS = 10.0  # after which a revoked token is refused
MOST_KEPT = 10_000
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass
class _Asker:
    """As `actor_of` takes a request, and keeps its answer in it."""

    user: object
    auth: object


class Callers:
    def __init__(self) -> None:
        self._known: dict[bytes, tuple[float, Actor]] = {}
        self._strangers: dict[
            bytes, float
        ] = {}  # apart, so that no flood of wrong tokens pushes out a right one
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    async def actor(self, token: str) -> Actor | None:
        """The actor behind a token; None for one that is unknown, expired or revoked."""
        key, now = _digest(token), time.monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < KEPT_SECONDS:
            return known[1]
        if now - self._strangers.get(key, -KEPT_SECONDS) < KEPT_SECONDS:
            return None
        actor = await sync_to_async(_look_up, thread_sensitive=False)(token)
        if actor is None:
            self._known.pop(key, None)
            _keep(self._strangers, key, now)
        else:
            _keep(self._known, key, (now, actor))
        return actor

    def wait_seconds(self, endpoint_id: str, caller: str, per_minute: int) -> float:
        """0.0 where the caller may go on; otherwise after how long it may. A burst of ten seconds is allowed.

        `caller`: the person, however many tokens there are, and however a request spells one.
        """
        if not per_minute:
            return 0.0
        rate, now = per_minute / 60, time.monotonic()
        most = max(1.0, rate * 10)
        bucket = self._buckets.get((endpoint_id, caller))
        if bucket is None:
            bucket = _Bucket(most, now)
            _keep(self._buckets, (endpoint_id, caller), bucket)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / rate
        bucket.tokens -= 1
        return 0.0


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Makes room for it by what was kept first, and by nothing else."""
    kept.pop(key, None)
    while len(kept) >= MOST_KEPT:
        del kept[next(iter(kept))]
    kept[key] = value


def may_call(actor: Actor, team: str) -> bool:
    return may(actor, "endpoint.call", team)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _look_up(token: str) -> Actor | None:
    close_old_connections()
    try:
        if token.startswith(tokens.PASS):
            person = tokens.holder(token)
            return None if person is None else actor_of(person)
        found = tokens.find(token)
        return None if found is None else actor_of(_Asker(found.user, found))
    finally:
        close_old_connections()
