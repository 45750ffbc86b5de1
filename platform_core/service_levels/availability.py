"""Availability by probes: a minute without a probe was a minute without the control plane."""

from __future__ import annotations

from platform_core.service_levels.budget import Counts
from platform_core.units import MINUTE_MS


def minute_of(at_ms: int) -> int:
    return at_ms - at_ms % MINUTE_MS


def counts(up: int, first_ms: int | None, from_ms: int, to_ms: int) -> Counts:
    """`up` of the whole minutes of the period were probed with success; the platform was first probed at `first_ms`.

    The probes are a task of the platform, and their outcome is kept in its database. So whatever stops them, a worker,
    the clock, the cache or the database, is an outage too, and counts as one.
    """
    if first_ms is None:
        return Counts()
    begin, end = max(minute_of(from_ms), minute_of(first_ms)), minute_of(to_ms)
    minutes = max(0, (end - begin) // MINUTE_MS)
    return Counts(min(up, minutes), minutes)
