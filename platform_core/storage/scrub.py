"""How much of the store a scrub reads at a time, so that all of it is read within the days that were promised."""

from __future__ import annotations

from platform_core.units import DAY_MS

LEAST_BYTES = 64 * 2**20  # one chunk: a small store is read much sooner


def round_bytes(stored: int, within_days: int, every_ms: int) -> int:
    """Of `stored` bytes, those that one of the rounds, `every_ms` apart, reads."""
    return max(LEAST_BYTES, -(-stored * every_ms // (within_days * DAY_MS)))


def is_late(oldest_ms: int, within_days: int, now_ms: int) -> bool:
    """Whether something was last read longer ago than was promised, with a tenth of the time as a margin."""
    return now_ms - oldest_ms > within_days * DAY_MS * 11 // 10
