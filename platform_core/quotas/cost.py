"""The cost of held slots, in integers, so that sums do not depend on their order."""

from __future__ import annotations

from platform_core.units import HOUR_MS


def cost_micro_dollars(ms: int, slots: int, price_per_hour: int) -> int:
    """`price_per_hour` in micro-dollars for one slot. Rounded once, half up, to the whole micro-dollar."""
    return (2 * ms * slots * price_per_hour + HOUR_MS) // (2 * HOUR_MS)
