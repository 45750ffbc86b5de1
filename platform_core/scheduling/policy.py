"""The choices an operator makes about scheduling, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.gang import SAVE_GRACE_MS
from platform_core.scheduling.ordering import ORDERS

NO_BOUND = 1_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    order: str = "priority_fair_share"  # a name in ordering.ORDERS
    skip_ahead: bool = True  # may a later job start while an earlier one cannot?
    reservations: int = 0  # for how many jobs that cannot start a place is kept
    evicts: bool = False  # may a waiting job stop running ones that come after it in order?
    migrates: bool = False  # may it also move jobs out of the way of a larger one? Only where `evicts`
    least_run_ms: int = 0  # of a job, each time it starts, before it may be evicted
    most_preemptions: int = NO_BOUND  # stopped so often, a job makes way for the more urgent only
    stop_grace_ms: int = SAVE_GRACE_MS  # how long a job may save when it is told to stop
    elastic: bool = False  # are elastic jobs shrunk for others and grown into what is idle?
    reclaims: bool = False  # are borrowers stopped for jobs within their team's guarantee?

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(
                f"no ordering policy is called {self.order!r}; there are {', '.join(sorted(ORDERS))}"
            )


# What production starts with: the defaults of its settings, and what `python -m benchmarks.scheduler` replays as
# `production`.
PRODUCTION = Policy(
    "size_and_wait",
    reservations=4,
    evicts=True,
    migrates=True,
    least_run_ms=5 * 60_000,
    most_preemptions=20,
    elastic=True,
    reclaims=True,
)
