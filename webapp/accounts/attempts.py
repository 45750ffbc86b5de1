"""Limits failed logins without locking out the owner of the account.

Attempts are counted by name and address, by address over all names, and by name over all addresses. A browser in which
the person has logged in before has a counter of its own: strangers behind the same proxy do not lock the person out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.cache import cache

from platform_core.errors import TrainmasterError
from webapp.base.identity import now_ms

LIMIT = 10
PERIOD_S = 600
ADDRESS_LIMIT = 100
ACCOUNT_LIMIT = 50
ACCOUNT_PERIOD_S = 3600


@dataclass(frozen=True, slots=True)
class Counter:
    """The limit of attempts of one kind in a period."""

    of: str  # completes "10 failed logins …"
    limit: int
    period_s: int
    name: str  # what is counted, and nothing else, has this name

    @property
    def key(self) -> str:
        return "login:" + hashlib.sha256(self.name.encode()).hexdigest()


def for_login(username: str, address: str, device: str = "") -> tuple[Counter, ...]:
    """`device` names a browser in which this person has logged in before."""
    account = username.lower()
    if device:
        return (Counter(f"logins as {username}", LIMIT, PERIOD_S, f"device\n{account}\n{device}"),)
    return (
        Counter(f"logins as {username}", LIMIT, PERIOD_S, f"pair\n{account}\n{address}"),
        Counter(f"logins from {address}", ADDRESS_LIMIT, PERIOD_S, f"address\n{address}"),
        Counter(f"logins as {username}", ACCOUNT_LIMIT, ACCOUNT_PERIOD_S, f"account\n{account}"),
    )


def for_password(username: str) -> tuple[Counter, ...]:
    """Returns the counters for the old password, which a person gives to set a new one."""
    return (Counter("attempts at the old password", LIMIT, PERIOD_S, f"password\n{username.lower()}"),)


def count(counters: Sequence[Counter]) -> None:
    """Counts one attempt before the password is checked, so that parallel ones count too. Raises rate_limited."""
    for counter in counters:
        _count(counter)


def _count(counter: Counter) -> None:
    key, period = counter.key, counter.period_s
    now_s = now_ms() // 1000
    cache.add(key + ":until", now_s + period, period)
    cache.add(key, 0, period)
    try:
        tries = cache.incr(key)
    except ValueError:  # it expired between the two lines
        return
    if tries > counter.limit:
        minutes = max(1, -(-(cache.get(key + ":until", now_s) - now_s) // 60))
        wait = "1 minute" if minutes == 1 else f"{minutes} minutes"
        sentence = f"{counter.limit} failed {counter.of} in {period // 60} minutes; try again in {wait}"
        raise TrainmasterError("rate_limited", sentence, limit=counter.limit, retry_after=wait)


def forget(counters: Sequence[Counter]) -> None:
    """After a correct password: resets the person's own counter, and takes this attempt off the shared ones."""
    first, *shared = counters
    cache.delete_many([first.key, first.key + ":until"])
    for counter in shared:
        try:
            cache.decr(counter.key)
        except ValueError:
            continue
