"""The lease of a node's attempts, as the processes that obey it read it."""

from __future__ import annotations

import struct
import time
from pathlib import Path

from platform_core.cluster.leases import NO_LEASE, Lease, covers, work_ms

__all__ = ["LEASE", "NO_LEASE", "boot_ms", "lease_loss", "read_lease"]

LEASE = struct.Struct("<QQQ")  # written by agent/lease.py


def boot_ms() -> int:
    """Milliseconds since boot. Unlike the monotonic clock it counts suspended time; nobody can set it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def read_lease(path: str) -> Lease | None:
    """None where there is none that can be read."""
    try:
        return Lease(*LEASE.unpack(Path(path).read_bytes()))
    except (OSError, struct.error):
        return None


def lease_loss(lease: Lease, ordered_ms: int, now_ms: int) -> tuple[int, float] | None:
    """For how many ms no heartbeat was acknowledged, and the seconds left to save; None while the lease holds.

    SIGTERM comes when four fifths of the lease have passed without an acknowledgement, SIGKILL when all of it has.
    """
    cut_off_ms = max(now_ms - lease.sent_ms, 1)
    if not covers(lease, ordered_ms, now_ms):
        return cut_off_ms, 0.0  # it may have run out and begun anew, as on a machine that was suspended
    if cut_off_ms < work_ms(lease.length_ms):
        return None
    return cut_off_ms, lease.left_ms(now_ms) / 1000
