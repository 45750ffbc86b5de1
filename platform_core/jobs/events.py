"""What can happen to a job. Each event says when, by whom and why; each is kept as a row."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.job import Member, MemberPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_ms: int
    actor: str = "system"  # 'user:alice', 'node:node-…', 'scheduler', 'system'
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Event):
    attempt: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberObserved(Event):
    """How far a node's part of the gang is. Reason 'infrastructure…': not the fault of the script."""

    attempt: int
    node: str
    phase: MemberPhase
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStarted(Event):
    attempt: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    attempt: int
    step: int
    checkpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptRequested(Event):
    """`attempt` names the attempt that was meant, so that a late copy cannot hit the next one."""

    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimitReached(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued(Event):
    """A preempted job is put back among the pending ones; `attempt` is the last one it had."""

    attempt: int


JobEvent = (
    Submitted
    | Placed
    | MemberObserved
    | CheckpointStarted
    | CheckpointSaved
    | CancelRequested
    | PreemptRequested
    | TimeLimitReached
    | NodeLost
    | Requeued
)
