"""How much slower a job makes steps now than over its whole attempt."""

from __future__ import annotations

from collections.abc import Sequence

from platform_core.units import MINUTE_MS

LOOKED_BACK_MS = 5 * MINUTE_MS
LEAST_MS = 2 * MINUTE_MS  # less says little about a pace


def slowdown_percent(
    points: Sequence[tuple[int, int]], at_ms: int, mean_steps_per_second: float | None
) -> float | None:
    """`points` are (time, step) as they were seen, oldest first. None where too little is known.

    A job that makes no step at all is slower by 100 %; one that is faster than its mean is slower by 0 %.
    """
    recent = [point for point in points if at_ms - point[0] <= LOOKED_BACK_MS]
    if not recent or not mean_steps_per_second:
        return None
    (first_ms, first_step), (_, last_step) = recent[0], recent[-1]
    lasted_ms = at_ms - first_ms
    if lasted_ms < LEAST_MS or last_step < first_step:
        return None
    pace = 1000 * (last_step - first_step) / lasted_ms
    return max(0.0, 100 * (1 - pace / mean_steps_per_second))
