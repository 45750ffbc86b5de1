"""The interval that the platform sets for a running job, from what its saves and its nodes have shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.checkpointing import interval
from platform_core.checkpointing.habit import Losses
from platform_core.units import DAY_MS, HOUR_MS, SECOND_MS, format_duration_ms

# One failure in so much node time is assumed beside those that were seen: a cluster that has lost nothing yet still
# gets an interval, and a few failures of the first day do not set it alone. Llama 3 had one in 264 node-days of 8 GPUs.
ASSUMED_NODE_MS = 100 * DAY_MS
ASSUMED_RUN_MS = (
    DAY_MS  # beside what the job itself has run, so that one early preemption does not set the interval
)
# Ends of the last hour or so count by themselves: a job that fails all the time must save between two failures.
MEMORY_MS, FORGOTTEN_MS, LEAST_COUNTED = HOUR_MS, 6 * HOUR_MS, 1.5
SHORTEST_MS, LONGEST_MS = 2 * SECOND_MS, HOUR_MS
WORTH_A_CHANGE = 0.15  # of the interval; less is noise of the measurements


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of the newest saves. `stored_ms`: from the start of a save until it is whole in the store."""

    blocking_ms: int  # for which training stands still
    stored_ms: int
    restart_ms: int  # from a stop until it runs again
    nodes: int
    losses: Losses
    stops: int = 0  # of the whole job, not by itself: preemptions, spot notices, maintenance, GPU faults
    ran_ms: int = 0  # in which these stops came
    ended_ago_ms: tuple[
        int, ...
    ] = ()  # how long ago attempts of it ended against its will, by failure or by order


@dataclass(frozen=True, slots=True)
class LiveInterval:
    """`waste`: expected part of the wall time for saving, lost work and restarts."""

    interval_ms: int
    optimum_ms: int
    mtbf_ms: int  # of the whole gang
    saving: float
    waste: float
    bound: str  # what sets it: "optimum", "store" (the time until a save is in the store), "shortest" or "longest"

    @property
    def sentence(self) -> str:
        every = format_duration_ms(self.interval_ms)
        optimum = format_duration_ms(self.optimum_ms)
        reason = {
            "optimum": "Daly's optimum",
            "store": f"the time until a save is in the store; Daly's optimum is {optimum}",
            "shortest": f"the shortest that is set; Daly's optimum is {optimum}",
            "longest": f"the longest that is set; Daly's optimum is {optimum}",
        }[self.bound]
        return f"The platform sets {every}: {reason}."


# As Daly gives it; C is the blocking time of a save, M the time between failures.
FORMULA = "sqrt(2CM) * (1 + sqrt(C/2M)/3 + (C/2M)/9) - C"


def mtbf_of_gang(measured: Measured) -> int:
    """The gang stops with any of its nodes, and when the platform stops it. What came lately counts where
    it is worse than what is usual."""
    losses = measured.losses
    lost = max(1, measured.nodes) * (losses.lost + 1) / (losses.node_ms + ASSUMED_NODE_MS)
    stopped = measured.stops / (measured.ran_ms + ASSUMED_RUN_MS)
    return max(1, round(1 / max(lost + stopped, _lately(measured.ended_ago_ms))))


def _lately(ended_ago_ms: Sequence[int]) -> float:
    """Ends for each ms, of which each counts for less the longer ago it was; 0 where too few tell.

    The time in which they came begins with the oldest that still counts, which therefore is no count of it: the rate of
    a failure each quarter of a minute is known after three.
    """
    counted = [math.exp(-ago / MEMORY_MS) for ago in ended_ago_ms if ago < FORGOTTEN_MS]
    if sum(counted) < LEAST_COUNTED:
        return 0.0
    watched_ms = MEMORY_MS * (1 - min(counted))
    return (sum(counted) - min(counted)) / max(1.0, watched_ms)


def live_interval(measured: Measured) -> LiveInterval:
    """Daly's optimum, and never shorter than a save takes until it is in the store: a store that slows down lengthens
    the interval."""
    blocking_ms = max(1, measured.blocking_ms)
    mtbf_ms = mtbf_of_gang(measured)
    optimum_ms = max(1, round(interval.daly(blocking_ms, mtbf_ms)))
    choices = {"optimum": optimum_ms, "store": measured.stored_ms, "shortest": SHORTEST_MS}
    bound = max(choices, key=lambda name: (choices[name], name == "optimum"))
    chosen_ms = choices[bound]
    longest_ms = max(LONGEST_MS, measured.stored_ms)
    if chosen_ms > longest_ms:
        chosen_ms, bound = longest_ms, "longest"
    return LiveInterval(
        interval_ms=chosen_ms,
        optimum_ms=optimum_ms,
        mtbf_ms=mtbf_ms,
        saving=blocking_ms / (chosen_ms + blocking_ms),
        waste=interval.waste(chosen_ms, blocking_ms, mtbf_ms, measured.restart_ms),
        bound=bound,
    )


def worth_setting(current_ms: int, advised_ms: int) -> bool:
    """Whether the script is given another interval."""
    return current_ms <= 0 or abs(advised_ms - current_ms) > WORTH_A_CHANGE * current_ms
