"""The choices an operator makes about scheduling, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.grace import SAVE_GRACE_MS
from platform_core.scheduling.ordering import ORDERS
from platform_core.units import HOUR_MS

NO_BOUND = 1_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    order: str = "priority_fair_share"  # a name in ordering.ORDERS
    skip_ahead: bool = (
        True  # may a later job start before an earlier one that does not fit? False only in baselines
    )
    reservations: int = 0  # how many jobs that cannot start get a reservation
    evicts: bool = False  # may an entitled waiting job stop running ones that are not?
    migrates: bool = False  # may smaller jobs migrate for a larger one? Only with `evicts`
    least_run_ms: int = 0  # how long a job runs after each start before it may be evicted
    most_preemptions: int = NO_BOUND  # after so many, only a more urgent job may stop it
    stop_grace_ms: int = SAVE_GRACE_MS  # how long a stopped job may save
    elastic: bool = False  # are elastic jobs shrunk for others and grown into idle GPUs?
    reclaims: bool = False  # are borrowers stopped for jobs within their team's guarantee?
    # How long a job with a layout may leave free places for a better one; 0: it takes as few nodes as it can, anywhere.
    place_wait_ms: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(
                f"no ordering policy is called {self.order!r}; choose one of {', '.join(sorted(ORDERS))}"
            )


# The defaults of the settings; `python -m benchmarks.scheduler` replays them as `production`.
PRODUCTION = Policy(
    "size_and_wait",
    reservations=4,
    evicts=True,
    migrates=True,
    least_run_ms=5 * 60_000,
    most_preemptions=20,
    elastic=True,
    reclaims=True,
    place_wait_ms=6 * HOUR_MS,
)
