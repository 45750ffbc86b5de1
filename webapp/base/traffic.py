"""Requests by route, counted in each process and added up in Redis every few seconds, for all processes together."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from redis.exceptions import RedisError

from platform_core.service_levels.objectives import BY_CODE
from platform_core.units import SECOND_MS

log = logging.getLogger(__name__)
KEY = "traffic"
FLUSH_SECONDS = 5.0
MOST_ROUTES = 1000  # a route is a pattern of ours, never what somebody typed
FIELDS = 7  # of a route, at most: five outcomes and two sums
QUICK_SECONDS = (BY_CODE["api_latency"].limit_ms or 0) / SECOND_MS


@dataclass(slots=True)
class Line:
    protocol: str
    route: str
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    quick: int = 0  # answered within the limit of the service level, without a server error

    @property
    def all(self) -> int:
        return sum(self.outcomes.values())


class Counter:
    """Thread-safe. A process that ends loses at most what it counted in the last seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._counts: dict[str, float] = defaultdict(float)
        self._flushed = clock()

    def add(self, protocol: str, route: str, outcome: str, seconds: float) -> None:
        with self._lock:
            self._counts[f"{protocol}|{route}|{outcome}"] += 1
            self._counts[f"{protocol}|{route}|seconds"] += seconds
            if seconds <= QUICK_SECONDS and outcome != "5xx":
                self._counts[f"{protocol}|{route}|quick"] += 1
            due = self._clock() - self._flushed >= FLUSH_SECONDS
        if due:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            counts, self._counts = self._counts, defaultdict(float)
            self._flushed = self._clock()
        if not counts:
            return
        try:
            pipe = _client().pipeline(transaction=False)
            for name, value in counts.items():
                pipe.hincrbyfloat(KEY, name, value)
            pipe.execute()
        except RedisError as error:
            log.warning("%d counts of requests were lost: %s", len(counts), error)


COUNTER = Counter()


def totals() -> list[Line]:
    COUNTER.flush()
    found: dict[tuple[str, str], Line] = {}
    pairs: Any = _client().hgetall(KEY)
    for name, value in sorted(pairs.items())[: MOST_ROUTES * FIELDS]:
        protocol, route, what = name.decode().split("|", 2)
        line = found.setdefault((protocol, route), Line(protocol, route))
        if what == "seconds":
            line.seconds = float(value)
        elif what == "quick":
            line.quick = round(float(value))
        else:
            line.outcomes[what] = round(float(value))
    return list(found.values())


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=5)


class TrafficMiddleware:
    """Counts each request under the pattern of its address; unknown addresses are one route."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        route = match.view_name if match and match.view_name else "unknown"
        COUNTER.add("http", route, f"{response.status_code // 100}xx", time.perf_counter() - begun)
        return response
