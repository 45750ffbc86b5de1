"""What a restart costs, measured by earlier restarts: until its first step a job holds slots without progress."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

RESUME_MS = 60_000  # to stop, load the checkpoint and rendezvous, if nothing was measured
LATELY = 50  # how many of the newest restarts of a size class count
_UP_TO_GPUS = (1, 8)  # one process; one node; more nodes need a rendezvous


def size_class(gpus: int) -> int:
    """The class of a job size; jobs of one class take about equally long to start."""
    return sum([gpus > most for most in _UP_TO_GPUS])


def restart_ms(own: Sequence[int], alike: Sequence[int], first_ms: int | None = None) -> int | None:
    """The median of the job's own restarts, else of recent restarts in its class; None if neither is known.

    A restart takes at least as long as the first start, which loaded no checkpoint.
    """
    if own:
        return median_low(own)
    usual_ms = median_low(alike) if alike else None
    if first_ms is None:
        return usual_ms
    return max(first_ms, RESUME_MS if usual_ms is None else usual_ms)
