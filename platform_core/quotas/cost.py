"""What held slots cost. Integers until the last step, so that sums do not depend on their order."""

from __future__ import annotations

from platform_core.units import HOUR_MS


def slot_ms(slots: int, started_ms: int, ended_ms: int) -> int:
    """Wall time times slots: what the ledger's sum has to equal."""
    return slots * max(0, ended_ms - started_ms)


def gpu_hours(ms: int, slots: int) -> float:
    """For reading: the float nearest to the exact quotient. Add up milliseconds, not this."""
    return ms * slots / HOUR_MS


def cost_micro_dollars(ms: int, slots: int, price_per_hour: int) -> int:
    """`price_per_hour` in micro-dollars for one slot. Rounded once, half up, to the whole micro-dollar."""
    return (2 * ms * slots * price_per_hour + HOUR_MS) // (2 * HOUR_MS)
