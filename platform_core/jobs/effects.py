"""What the shell has to do after a step. Carried out a second time, an effect must change nothing."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Job
from platform_core.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class StopMembers:
    """Tell these nodes to stop their part: SIGTERM, and SIGKILL after the grace."""

    nodes: tuple[str, ...]
    grace_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseSlots:
    """The slots that this attempt holds on these nodes are free again; close their ledger entries."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HintScheduler:
    """Something changed that may let a job start; the next tick would find out anyway."""


@dataclass(frozen=True, slots=True)
class GangEnded:
    """The last member has ended. `outcome` is the state that follows: pending means another try."""

    outcome: JobState
    end: EndReason
    sentence: str


Effect = StopMembers | ReleaseSlots | HintScheduler | GangEnded


@dataclass(frozen=True, slots=True)
class Step:
    job: Job
    effects: tuple[Effect, ...] = ()
