"""Node failures and spot reclaims, drawn for each node separately, so that every policy meets the same ones."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from platform_core.cluster.snapshot import NodeView
from platform_core.jobs.constraints import SPOT
from platform_core.simulation.workload import SECOND_MS, Departure
from platform_core.units import DAY_MS, HOUR_MS

Uniform = Callable[[], float]  # the next number drawn evenly from 0 to 1, without 1


@dataclass(frozen=True, slots=True)
class Rates:
    """The departure rate of a node: exponential, independent of its age."""

    failures_per_day: float = 0.0  # of each node
    repair_ms: int = HOUR_MS  # until it is back, after a failure or a notice
    notices_per_day: float = 0.0  # of each spot node
    notice_ms: int = 120 * SECOND_MS

    def __post_init__(self) -> None:
        for name, value in (("failures", self.failures_per_day), ("notices", self.notices_per_day)):
            if not 0 <= value <= DAY_MS:
                raise ValueError(f"{value} {name} a day of a node; it must be from 0 to {DAY_MS}")
        if self.repair_ms < 0 or self.notice_ms <= 0:
            given = f"repair takes {self.repair_ms} ms and a notice comes {self.notice_ms} ms before"
            raise ValueError(f"{given}; the first must be 0 or more, the second more than 0")

    @property
    def mean_ms_between_failures(self) -> int | None:
        """Mean time between failures of one node; None if none fails."""
        return round(DAY_MS / self.failures_per_day) if self.failures_per_day else None


def departures(
    nodes: Iterable[NodeView], rates: Rates, chance: Callable[[str], Uniform]
) -> Iterator[Departure]:
    """Yields departures in order of time, for ever. `chance` gives each node id its own random source."""
    each = [_of_node(node, rates, chance(node.id)) for node in nodes]
    return heapq.merge(*each, key=lambda departure: (departure.at_ms, departure.node))


def is_spot(node: NodeView) -> bool:
    return (SPOT, "yes") in node.labels


def _of_node(node: NodeView, rates: Rates, uniform: Uniform) -> Iterator[Departure]:
    notices = rates.notices_per_day if is_spot(node) else 0.0
    a_day, now_ms = rates.failures_per_day + notices, 0
    while a_day:
        now_ms += max(1, round(-math.log(1.0 - uniform()) * DAY_MS / a_day))
        notice_ms = rates.notice_ms if uniform() * a_day < notices else 0
        back_ms = now_ms + notice_ms + rates.repair_ms
        yield Departure(node.id, now_ms, notice_ms, back_ms)
        now_ms = back_ms
