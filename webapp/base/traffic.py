"""Requests by route and other counts, kept in each process and added up in Redis every few seconds, for all together.

A request is one of HTTP, a step that the gateway takes for an agent (grpc), or a task of a worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
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
KEY, TALLIES = "traffic", "tallies"
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
        self._counts: dict[tuple[str, str], float] = defaultdict(float)  # by hash of Redis and field
        self._flushed = clock()

    def add(self, protocol: str, route: str, outcome: str, seconds: float) -> None:
        of_route = f"{protocol}|{route}"
        counts = {f"{of_route}|{outcome}": 1.0, f"{of_route}|seconds": seconds}
        if seconds <= QUICK_SECONDS and outcome != "5xx":
            counts[f"{of_route}|quick"] = 1.0
        self._add(KEY, counts)

    def tally(self, family: str, counts: Mapping[str, float]) -> None:
        """Adds to the counts of a family, by label."""
        self._add(TALLIES, {f"{family}|{label}": count for label, count in counts.items()})

    def _add(self, key: str, counts: Mapping[str, float]) -> None:
        with self._lock:
            for name, count in counts.items():
                self._counts[key, name] += count
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
            for (key, name), value in counts.items():
                pipe.hincrbyfloat(key, name, value)
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


def tallies() -> defaultdict[str, dict[str, float]]:
    """Family → label → count; a family that nobody has counted is empty."""
    COUNTER.flush()
    pairs: Any = _client().hgetall(TALLIES)
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for name, value in sorted(pairs.items()):
        family, label = name.decode().split("|", 1)
        found[family][label] = float(value)
    return found


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


class TaskTimes:
    """Counts the tasks of this worker process, by Celery's signals. A process carries out one at a time."""

    def __init__(self) -> None:
        self._begun = 0.0

    def begin(self, **_: Any) -> None:
        self._begun = time.perf_counter()

    def end(self, task: Any = None, state: str | None = None, **_: Any) -> None:
        outcome = "5xx" if state == "FAILURE" else "2xx"
        COUNTER.add("task", getattr(task, "name", "unknown"), outcome, time.perf_counter() - self._begun)


TASKS = TaskTimes()
