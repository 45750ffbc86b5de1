"""Who calls: tokens of teams, each looked up once in a while, and the rate of each caller."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from webapp.accounts import tokens
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of

KEPT_SECONDS = 10.0  # after which a revoked token is refused
MOST_KEPT = 10_000


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
        self._known: dict[bytes, tuple[float, Actor | None]] = {}
        self._buckets: dict[tuple[str, bytes], _Bucket] = {}

    async def actor(self, token: str) -> Actor | None:
        """The actor behind a token; None for one that is unknown, expired or revoked."""
        key, now = _digest(token), time.monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < KEPT_SECONDS:
            return known[1]
        actor = await sync_to_async(_look_up, thread_sensitive=False)(token)
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        self._known[key] = (now, actor)
        return actor

    def wait_seconds(self, endpoint_id: str, token: str, per_minute: int) -> float:
        """0.0 where the caller may go on; otherwise after how long it may. A burst of ten seconds is allowed."""
        if not per_minute:
            return 0.0
        rate, now = per_minute / 60, time.monotonic()
        most = max(1.0, rate * 10)
        if len(self._buckets) >= MOST_KEPT:
            self._buckets.clear()
        bucket = self._buckets.setdefault((endpoint_id, _digest(token)), _Bucket(most, now))
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / rate
        bucket.tokens -= 1
        return 0.0


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
