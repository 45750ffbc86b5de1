"""The event queue of a simulation: one heap, ordered by time and then by name."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class What(IntEnum):
    ARRIVES = 0  # a job
    GOES_ON = 1  # its script saves, or ends
    LEAVES = 2  # it was told to stop, and has stopped
    LOOK = 3  # time alone has changed what a round would do with it
    RESTARTS = 4  # it has failed, and may start again
    NOTICE = 5  # a node will go
    GONE = 6
    SWEEP = 7  # it has been silent for so long that a sweep makes something of it
    BACK = 8


class Event(NamedTuple):
    at_ms: int
    whom: str  # job or node
    number: int  # which attempt of the job, which departure of the node: an earlier one is stale
    what: What


@dataclass(slots=True)
class Agenda:
    events: list[Event] = field(default_factory=list)

    def add(self, at_ms: int, whom: str, number: int, what: What) -> None:
        heapq.heappush(self.events, Event(at_ms, whom, number, what))

    def next_at(self, now_ms: int) -> Event | None:
        """The next event of this moment."""
        if self.events and self.events[0].at_ms == now_ms:
            return heapq.heappop(self.events)
        return None
