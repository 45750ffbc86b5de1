"""Whether this process lives, and whether it can serve, for which it needs the database, a connection, and Valkey."""

import threading
import time

import psycopg
import redis
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

SECONDS = 2
KEPT_S = 1.0  # anybody may ask, and each check opens a connection
STARVED_SECONDS = 120.0  # the slowest request ends before
_starved_since: float | None = None
_lock = threading.Lock()
_last: tuple[float, tuple[str, ...]] = (0.0, ())


@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Checks this process alone: a restart of it repairs no database, but gives back what its requests still hold."""
    starved_s = _starved_s(time.monotonic())
    dead = starved_s > STARVED_SECONDS
    text = f"Requests have held all connections to the database for {starved_s:.0f} s.\n" if dead else "ok\n"
    return HttpResponse(text, content_type="text/plain", status=503 if dead else 200)


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    problems = _checked()
    text = "".join(f"{problem}\n" for problem in problems) or "ok\n"
    return HttpResponse(text, content_type="text/plain", status=503 if problems else 200)


def _checked() -> tuple[str, ...]:
    global _last
    with _lock:
        at, problems = _last
        if not at or time.monotonic() - at > KEPT_S:
            _last = (time.monotonic(), problems := (*(_database() or _pool()), *_valkey()))
        return problems


def _database() -> tuple[str, ...]:
    """Opens a new connection: on an open one a query to a frozen server waits without end."""
    parameters = connection.get_connection_params()
    place = {
        name: parameters[name]
        for name in ("dbname", "user", "password", "host", "port")
        if name in parameters
    }
    try:
        with psycopg.connect(**place, connect_timeout=SECONDS):
            return ()
    except psycopg.Error:
        return (f"The database does not answer within {SECONDS} s.",)


def _pool() -> tuple[str, ...]:
    """Takes what every page needs: a connection that no request holds."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        return ()
    try:
        pool.open()  # which the first page does otherwise
        with pool.connection(timeout=SECONDS):
            return ()
    except psycopg.OperationalError:
        return (f"No connection to the database became free within {SECONDS} s.",)


def _starved_s(now: float) -> float:
    """For how long each look has found all connections of the pool held."""
    global _starved_since
    pool = getattr(connection, "pool", None)
    figures = pool.get_stats() if pool is not None else {}
    if pool is None or figures.get("pool_available", 0) or figures.get("pool_size", 0) < pool.max_size:
        _starved_since = None
    elif _starved_since is None:
        _starved_since = now
    return 0.0 if _starved_since is None else now - _starved_since


def _valkey() -> tuple[str, ...]:
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=SECONDS, socket_connect_timeout=SECONDS
        ) as client:
            client.ping()
            return ()
    except redis.RedisError:
        return (f"Valkey does not answer within {SECONDS} s.",)
