"""Whether this process lives, and whether it can serve: the latter needs the database and Valkey."""

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
_lock = threading.Lock()
_last: tuple[float, tuple[str, ...]] = (0.0, ())


@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Checks this process alone: a restart of it repairs no database."""
    return HttpResponse("ok\n", content_type="text/plain")


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
            _last = (time.monotonic(), problems := (*_database(), *_valkey()))
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


def _valkey() -> tuple[str, ...]:
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=SECONDS, socket_connect_timeout=SECONDS
        ) as client:
            client.ping()
            return ()
    except redis.RedisError:
        return (f"Valkey does not answer within {SECONDS} s.",)
