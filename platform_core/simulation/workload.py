"""What a simulated cluster is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SECOND_MS = 1_000


class Knowledge(StrEnum):
    """What the scheduler is told of a job's run time."""

    LIMITS = "limits"  # the user's limit only, as in production
    EXACT = "exact"  # the truth, for oracles


@dataclass(frozen=True, slots=True)
class TraceJob:
    id: str
    submit_ms: int
    gpus: int
    duration_ms: int  # on its GPUs, without restarts; the simulator knows it, the scheduler does not
    limit_ms: int
    team: str = "everyone"
    priority: int = 50
    preemptible: bool = True
    min_gpus: int = 0  # it runs with so many too, in proportion slower; 0: only with all


@dataclass(frozen=True, slots=True)
class Departure:
    """A node is taken away, `notice_ms` after that was said (0: a failure), and comes back or not."""

    node: str
    at_ms: int  # of the notice
    notice_ms: int = 120 * SECOND_MS
    back_ms: int | None = None


def restart_ms(gpus: int) -> int:
    """What a stop and resume costs: more ranks take longer to stop, load and meet again."""
    if gpus == 1:
        return 7 * SECOND_MS
    return 30 * SECOND_MS if gpus <= 8 else 60 * SECOND_MS
