"""What it costs a job to start again, from what starts have taken: until its first step it holds slots for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

RESUME_MS = 60_000  # to stop, load the checkpoint and meet again, where nothing was measured
LATELY = 50  # so many of the newest restarts of a class are looked at
_UP_TO_GPUS = (1, 8)  # one process; one node; more of them, that must meet


def size_class(gpus: int) -> int:
    """Jobs of one class take about equally long to start."""
    return sum([gpus > most for most in _UP_TO_GPUS])


def restart_ms(own: Sequence[int], alike: Sequence[int], first_ms: int | None = None) -> int | None:
    """The median of how long its own restarts took, else that of others of its class lately; None: nobody knows.

    Its first start loaded no checkpoint, so another takes at least as long.
    """
    if own:
        return median_low(own)
    usual_ms = median_low(alike) if alike else None
    if first_ms is None:
        return usual_ms
    return max(first_ms, RESUME_MS if usual_ms is None else usual_ms)
