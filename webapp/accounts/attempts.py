"""Slows down whoever guesses passwords: ten failures in ten minutes for one name from one address."""

import hashlib

from django.core.cache import cache

from platform_core.errors import TrainmasterError
from webapp.live.identity import now_ms

LIMIT = 10
PERIOD_S = 600


def _key(username: str, address: str) -> str:
    return "login:" + hashlib.sha256(f"{username.lower()}\n{address}".encode()).hexdigest()


def count(username: str, address: str) -> None:
    """Count one try before the password is looked at, so that parallel tries are counted too."""
    key = _key(username, address)
    now_s = now_ms() // 1000
    cache.add(key + ":until", now_s + PERIOD_S, PERIOD_S)
    cache.add(key, 0, PERIOD_S)
    try:
        tries = cache.incr(key)
    except ValueError:  # it expired between the two lines
        return
    if tries > LIMIT:
        minutes = max(1, -(-(cache.get(key + ":until", now_s) - now_s) // 60))
        wait = "1 minute" if minutes == 1 else f"{minutes} minutes"
        sentence = f"{LIMIT} failed logins as {username} in {PERIOD_S // 60} minutes; try again in {wait}"
        raise TrainmasterError("rate_limited", sentence, limit=LIMIT, retry_after=wait)


def forget(username: str, address: str) -> None:
    """After a good password the failures before it count no more."""
    key = _key(username, address)
    cache.delete_many([key, key + ":until"])
