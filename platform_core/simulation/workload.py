"""The workload of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.cluster.snapshot import PlaceStep

SECOND_MS = 1_000


class Knowledge(StrEnum):
    """What the scheduler knows of a job's run time."""

    LIMITS = "limits"  # the user's limit of an attempt only, as in production
    EXACT = "exact"  # the truth, for oracles


@dataclass(frozen=True, slots=True)
class Saving:
    """How a script saves its work. Only saved work survives its attempt."""

    every_ms: int = 0  # between the end of one save and the start of the next; 0: never by itself
    takes_ms: int = 0  # the work stands still so long
    when_stopped: bool = True  # does it save once more when it is told to stop?


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job and its class: how urgent it is, whether it may be stopped or resized, how it saves."""

    id: str
    submit_ms: int
    gpus: int
    duration_ms: int  # on its GPUs, without restarts; the simulator knows it, the scheduler does not
    limit_ms: int
    team: str = "everyone"
    priority: int = 50
    preemptible: bool = True
    min_gpus: int = 0  # it runs with so many too, in proportion slower; 0: only with all
    saving: Saving = Saving()
    place_steps: tuple[PlaceStep, ...] = ()  # on other places than the first it is slower in proportion

    def step_us(self, nodes: int, racks: int) -> tuple[int, int]:
        """Of one step on such a place, and on the fastest one."""
        fastest_us = self.place_steps[0].step_us if self.place_steps else 1
        fitting = [step.step_us for step in self.place_steps if step.nodes == nodes and racks <= step.racks]
        return (min(fitting) if fitting else fastest_us), fastest_us


@dataclass(frozen=True, slots=True)
class Departure:
    """A node leaves `notice_ms` after a notice, and may return. 0: it fails without notice."""

    node: str
    at_ms: int  # of the notice
    notice_ms: int = 120 * SECOND_MS
    back_ms: int | None = None


def restart_ms(gpus: int) -> int:
    """The time of a restart: more ranks take longer to stop, load and rendezvous."""
    if gpus == 1:
        return 7 * SECOND_MS
    return 30 * SECOND_MS if gpus <= 8 else 60 * SECOND_MS
