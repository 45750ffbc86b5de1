"""The lease of a node's attempts, as the processes that obey it read it."""

from __future__ import annotations

import struct
import time
from pathlib import Path

LEASE = struct.Struct("<QQQ")  # written by agent/lease.py


def boot_ms() -> int:
    """Milliseconds since boot. Unlike the monotonic clock it counts suspended time; nobody can set it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def read_lease(path: str) -> tuple[int, int, int] | None:
    """Time of the last renewal, start of the unbroken run of renewals, and length, in milliseconds of `boot_ms`."""
    try:
        return LEASE.unpack(Path(path).read_bytes())
    except (OSError, struct.error):
        return None


def lease_loss(path: str, began_ms: int) -> tuple[int, float] | None:
    """How long the agent has been silent, in milliseconds, and the seconds left to save; None while the lease holds.

    SIGTERM comes when two thirds of the lease have passed without a renewal, SIGKILL when all of it has.
    """
    lease = read_lease(path)
    if lease is None:
        return None
    renewed_ms, since_ms, length_ms = lease
    silent_ms = max(boot_ms() - renewed_ms, 1)
    if since_ms > began_ms:
        return silent_ms, 0.0  # it was lost and began anew, as by a machine that was suspended
    if silent_ms * 3 < length_ms * 2:
        return None
    return silent_ms, max(0.0, (length_ms - silent_ms) / 1000)
