"""A job as a value. Only `transitions.advance` makes a new one from an old one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.ends import EndReason
from platform_core.jobs.spec import JobSpec
from platform_core.jobs.states import ACTIVE, TERMINAL, JobState


class MemberPhase(StrEnum):
    ASSIGNED = "assigned"
    PREPARING = "preparing"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


class EndKind(StrEnum):
    """The default that the first migration of webapp.jobs names; the second maps its values to `EndReason`."""

    SCRIPT = "script"


class Stop(StrEnum):
    """Why an active job is being stopped; NONE while it may go on."""

    NONE = "none"
    CANCEL = "cancel"
    PREEMPT = "preempt"
    RESTART = "restart"
    RESTORE = "restore"  # the checkpoint it began from is damaged
    TIME_LIMIT = "time_limit"


@dataclass(frozen=True, slots=True)
class Member:
    """One node's part of a gang. `rank` is the node's rank in the gang; `slots` are indices on that node."""

    node: str
    rank: int
    slots: tuple[int, ...]
    phase: MemberPhase = MemberPhase.ASSIGNED
    exit_code: int | None = None
    reason: str = ""
    end: EndReason = EndReason.SUCCEEDED  # once it has ended

    @property
    def ended(self) -> bool:
        return self.phase in (MemberPhase.EXITED, MemberPhase.LOST)


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt failed and this node's member was the cause, as far as can be told."""

    node: str
    at_ms: int
    attempt: int = 0
    rank: int = 0
    end: EndReason = EndReason.SCRIPT_ERROR
    exit_code: int | None = None
    ran_ms: int = 0  # since all ranks ran; 0 where they never did
    step: int = 0  # of the newest checkpoint at the end of the attempt
    reached: int = -1  # the last step that the attempt reported; -1: none


@dataclass(frozen=True, slots=True)
class Job:
    """`started_ms` is when the current attempt took its slots: the time limit and the cost count from there.

    After an attempt has ended its members stay, all of them ended, until the next placement replaces them.
    `version` grows by one with every change, so that the shell can guard its updates.
    """

    id: str
    spec: JobSpec
    state: JobState
    version: int
    attempt: int  # 0 before the first placement
    restarts: int
    failures: tuple[Failure, ...]
    excluded_nodes: tuple[str, ...]
    stop: Stop
    latest_checkpoint: str
    submitted_ms: int
    waiting_since_ms: int  # as if it had waited at a stretch: the time that its attempts took is left out
    started_ms: int | None
    finished_ms: int | None
    reason: str  # why it failed, waits again or ended: a sentence
    members: tuple[Member, ...]
    latest_step: int = 0  # step of `latest_checkpoint`
    latest_ms: int | None = None  # when it was saved
    latest_attempt: int = 0  # the attempt that saved it: an older notice that comes late must not win
    save_ms: int | None = None  # what its newest save took until it was on the disks of all nodes
    unsaved_step: int = -1  # newest one at which the current attempt could not save a checkpoint
    stop_grace_ms: int = 0  # what its members were given when they were told to stop
    reached: int = -1  # the last step that the current attempt has reported; -1: none
    running_ms: int | None = None  # since when all ranks of the current attempt run
    not_before_ms: int = 0  # after a failure, it starts again from then on
    end: EndReason | None = None  # why its newest attempt is being stopped, or has ended

    @property
    def stopping(self) -> bool:
        return self.state in ACTIVE and self.stop is not Stop.NONE

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL

    @property
    def living(self) -> tuple[Member, ...]:
        """Members that still hold their slots."""
        return tuple(member for member in self.members if not member.ended)
