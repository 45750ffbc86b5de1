"""How much of what takes long one person may have going on at once, over all processes.

Whoever has it all going on is refused at once and tries again; the others do not wait for it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import redis
from django.conf import settings

from platform_core.errors import TrainmasterError


@dataclass(frozen=True, slots=True)
class Kind:
    words: str  # completes "alice has 2 … going on"
    at_once: int
    longest_s: int  # then a turn that nobody gave back counts no longer
    wait_s: int  # after which it is worth to try again


KINDS: Mapping[str, Kind] = {
    "git": Kind("git fetches", 2, 180, 15),
    "image": Kind("image look-ups", 4, 60, 5),
    "preview": Kind("file previews", 4, 120, 5),
    "download": Kind("downloads", 8, 3600, 15),
}

_TAKE = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
"""


@contextmanager
def turn(kind: str, person: str) -> Iterator[None]:
    """Raises rate_limited where the person has as much of this kind going on as one may."""
    token = take(kind, person)
    try:
        yield
    finally:
        give_back(kind, person, token)


def take(kind: str, person: str) -> str:
    """The turn, to be given back."""
    limit, token, now = KINDS[kind], secrets.token_hex(8), time.time()
    with _client() as client:
        taken = client.eval(
            _TAKE, 1, _key(kind, person), now, now + limit.longest_s, limit.at_once, token, limit.longest_s
        )
    if not taken:
        sentence = (
            f"{person} has {limit.at_once} {limit.words} going on, which is the most at once; "
            f"try again in {limit.wait_s} seconds"
        )
        raise TrainmasterError("rate_limited", sentence, limit=limit.at_once, retry_after_s=limit.wait_s)
    return token


def give_back(kind: str, person: str, token: str) -> None:
    with _client() as client:
        client.zrem(_key(kind, person), token)


def _key(kind: str, person: str) -> str:
    return f"turns:{kind}:{person}"


def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=5)
