"""A round: one leader looks after one subject after the other, and one that fails holds up none of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from billiard.exceptions import SoftTimeLimitExceeded
from django.core.cache import cache
from django.db import DatabaseError, InterfaceError, connection
from redis.exceptions import RedisError

from webapp.base import lease
from webapp.base.lease import Leadership, LostLease

log = logging.getLogger(__name__)
Subject = TypeVar("Subject")
ALERTED_AFTER = 3  # rounds in a row
KEPT_S = 3600  # after the last round in which something failed
_NAMES = "rounds:names"


def led(name: str, work: Callable[[Leadership], None]) -> bool:
    """Runs one round as the leader. Returns False when another replica is in the middle of one."""
    leadership = lease.acquire(name, lease.candidate())
    if leadership is None:
        return False
    try:
        work(leadership)
    except LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def each(name: str, subjects: Iterable[Subject], work: Callable[[Subject], object]) -> int:
    """Works on each subject and passes over those that fail; returns on how many it worked.

    `name` and a subject as text name it in the log: at its first failure in full, then ever more seldom by their
    number. A lost lease, the end of the round's time and a database or Valkey that is away end the round.
    """
    before, failing, done = _before(name), {}, 0
    try:
        for subject in subjects:
            try:
                work(subject)
            except (LostLease, SoftTimeLimitExceeded, InterfaceError, RedisError):
                raise
            except Exception as error:
                if isinstance(error, DatabaseError) and not connection.is_usable():
                    raise
                failing[str(subject)] = _failed(name, str(subject), before.get(str(subject), 0) + 1)
            else:
                done += 1
                before.pop(str(subject), None)
    finally:
        _keep(name, before, failing)
    return done


def failing() -> int:
    """How many subjects have failed in several rounds in a row."""
    names = cache.get(_NAMES) or ()
    counts = cache.get_many([_key(name) for name in names]).values()
    return sum(count >= ALERTED_AFTER for of_round in counts for count in of_round.values())


def _failed(name: str, subject: str, count: int) -> int:
    if count == 1:
        log.exception("%s %s failed in this round; the next one tries again", name, subject)
    elif not count & (count - 1):
        log.error("%s %s has failed in %d rounds in a row", name, subject, count)
    return count


def _before(name: str) -> dict[str, int]:
    with suppress(RedisError):
        return dict(cache.get(_key(name)) or {})
    return {}


def _keep(name: str, before: dict[str, int], failing: dict[str, int]) -> None:
    """`before`: also of those that this round did not come to."""
    with suppress(RedisError):
        if failing:
            cache.set(_NAMES, sorted({*(cache.get(_NAMES) or ()), name}), None)
            cache.set(_key(name), before | failing, KEPT_S)
        elif cache.get(_key(name)):
            cache.set(_key(name), before, KEPT_S)


def _key(name: str) -> str:
    return f"rounds:{name}"
