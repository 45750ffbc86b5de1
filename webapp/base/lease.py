"""Leadership by a row in PostgreSQL: any number may try, one leads, and its fencing number tells old from new."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction

from webapp.base.models import Lease

Fence = Callable[[], AbstractContextManager[None]]  # a transaction, perhaps one of a leader only


class LostLease(Exception):
    """Somebody else leads by now; whatever was planned under the old number must not be applied."""


@dataclass(frozen=True, slots=True)
class Leadership:
    name: str
    fencing: int


# One statement, on the database's own clock: replicas need not agree about the time.
_ACQUIRE = """
INSERT INTO base_lease AS lease (name, holder, fencing, expires_ms)
VALUES (%(name)s, %(holder)s, 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + %(ms)s)
ON CONFLICT (name) DO UPDATE SET
    holder = EXCLUDED.holder,
    fencing = lease.fencing + CASE WHEN lease.holder = EXCLUDED.holder THEN 0 ELSE 1 END,
    expires_ms = EXCLUDED.expires_ms
WHERE lease.holder = EXCLUDED.holder
   OR lease.expires_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint
RETURNING fencing
"""
_HOLD = """
SELECT set_config('idle_in_transaction_session_timeout', %(ms)s, true) FROM base_lease
WHERE name = %(name)s AND fencing = %(fencing)s FOR UPDATE
"""


_IS_HELD = """
SELECT 1 FROM base_lease
WHERE name = %(name)s AND expires_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
"""


def candidate() -> str:
    """A holder's name that nobody else has: not another thread, nor a container with this host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def acquire(name: str, holder: str) -> Leadership | None:
    """Become or stay the leader; None while somebody else's lease has not expired."""
    with connection.cursor() as cursor:
        cursor.execute(_ACQUIRE, {"name": name, "holder": holder, "ms": settings.LEASE_SECONDS * 1000})
        row = cursor.fetchone()
    return Leadership(name, row[0]) if row else None


def check(leadership: Leadership, silence_s: int | None = None) -> None:
    """Hold the lease row for the rest of this transaction, or raise LostLease when the fencing number is old.

    The row is held for no longer than `silence_s` (the lease's length unless told) in silence: of a leader on a machine
    that is cut off or frozen the database hears neither a commit nor an end, and nobody else could lead until its
    connection is given up, in hours.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("the fencing number is only worth something inside the transaction that applies")
    silence = str(1000 * (silence_s or settings.LEASE_SECONDS))
    with connection.cursor() as cursor:
        cursor.execute(_HOLD, {"name": leadership.name, "fencing": leadership.fencing, "ms": silence})
        held = cursor.fetchone()
    if held is None:
        raise LostLease(f"another {leadership.name} leads; fencing number {leadership.fencing} is old")


@contextmanager
def fenced(leadership: Leadership) -> Iterator[None]:
    """A transaction in which only this leader writes; LostLease before anything is written when it leads no more."""
    with transaction.atomic():
        check(leadership)
        yield


def release(leadership: Leadership) -> None:
    """Let the next one lead at once."""
    Lease.objects.filter(name=leadership.name, fencing=leadership.fencing).update(expires_ms=0)


def is_held(name: str) -> bool:
    """Whether the lease of this name has a holder and has not expired, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_HELD, {"name": name})
        return cursor.fetchone() is not None
