"""What can happen to a job. Each event says when, by whom and why, and is kept as a row."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.checkpointing.restore import Chosen
from platform_core.jobs.ends import ENDS, EndReason, with_exit_code
from platform_core.jobs.job import Member, MemberPhase
from platform_core.units import plural


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
    """How far a node's part of the gang is."""

    attempt: int
    node: str
    phase: MemberPhase
    exit_code: int | None = None
    reason: str = ""
    end: EndReason = EndReason.SCRIPT_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStarted(Event):
    attempt: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """`save_ms`: until it was on the disks of all nodes; 0 where nobody measured it."""

    attempt: int
    step: int
    checkpoint: str
    save_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed(Event):
    """It could not be written, as the cause says; the job goes on."""

    attempt: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDamaged(Event):
    """What this attempt should begin from has other bytes than were saved, or none; the cause says which."""

    attempt: int
    checkpoint: str
    step: int
    instead: Chosen | None  # None: no other is whole


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """`may_save`: its script gets as long to save as a preempted one."""

    may_save: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptRequested(Event):
    """`attempt` names the attempt that was meant, so that a late copy cannot hit the next one."""

    attempt: int | None = None
    leaves_ms: int | None = None  # when a node of it is taken away, by a notice
    end: EndReason = EndReason.PREEMPTED  # or SPOT_NOTICE, MAINTENANCE, GPU_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimitReached(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung(Event):
    """Its ranks make no progress, as the cause says, and it is to restart. `node`: of the stuck rank."""

    attempt: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupted(Event):
    """Ranks of this attempt, or of an earlier one, computed different results from the same batch.

    `nodes` are those of the guilty ranks; none: not known. `damaged` are the checkpoints from after the last agreement.
    """

    attempt: int
    step: int
    nodes: tuple[str, ...]
    damaged: tuple[str, ...]
    instead: Chosen | None  # None: no checkpoint is from before that


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    node: str


JobEvent = (
    Submitted
    | Placed
    | MemberObserved
    | CheckpointStarted
    | CheckpointSaved
    | CheckpointFailed
    | CheckpointDamaged
    | CancelRequested
    | PreemptRequested
    | TimeLimitReached
    | NodeLost
    | Hung
    | Corrupted
)


def describe(event: JobEvent) -> str:
    """The event as a line of the timeline: a sentence with its numbers, and its cause after a colon."""
    sentence = _what_happened(event)
    return f"{sentence}: {event.cause}" if event.cause else sentence


def _what_happened(event: JobEvent) -> str:
    who = event.actor.removeprefix("user:")
    match event:
        case Submitted():
            return f"{who} submitted it"
        case Placed(attempt=attempt, members=members):
            places = ", ".join(f"{m.node} ({_slots(m.slots)})" for m in members)
            slots = plural(sum(len(m.slots) for m in members), "slot")
            return f"attempt {attempt} got {slots} on {places}"
        case MemberObserved():
            return _what_was_seen(event)
        case CheckpointStarted(step=step):
            return f"began to write a checkpoint at step {step}"
        case CheckpointSaved(step=step, checkpoint=checkpoint):
            return f"saved checkpoint {checkpoint} at step {step}"
        case CheckpointFailed(step=step):
            return f"could not save a checkpoint at step {step}"
        case CheckpointDamaged(checkpoint=checkpoint, step=step):
            return f"checkpoint {checkpoint} at step {step} is damaged"
        case CancelRequested():
            return f"{who} cancelled it"
        case PreemptRequested():
            return f"{who} asked for its slots back"
        case TimeLimitReached():
            return "its time limit was reached"
        case NodeLost(node=node):
            return f"{node} was lost"
        case Corrupted(step=step):
            return f"its ranks computed different results at step {step}"
        case Hung():
            return f"{who} restarted it, for it hung" if event.actor != "system" else "it hung"


def _what_was_seen(event: MemberObserved) -> str:
    match event.phase:
        case MemberPhase.EXITED:
            code = "" if event.exit_code is None else f" with exit code {event.exit_code}"
            end = with_exit_code(event.end, event.exit_code)
            cause = "" if end is EndReason.SUCCEEDED else f", {ENDS[end].in_sentence}"
            sentence = f"its processes on {event.node} ended{code}{cause}"
        case MemberPhase.LOST:
            sentence = f"its processes on {event.node} are gone"
        case MemberPhase.RUNNING:
            sentence = f"its processes run on {event.node}"
        case MemberPhase.PREPARING:
            sentence = f"{event.node} fetches its code and data"
        case _:
            sentence = f"{event.node} is assigned"
    return f"{sentence} ({event.reason})" if event.reason else sentence


def _slots(indices: tuple[int, ...]) -> str:
    return f"slot{'' if len(indices) == 1 else 's'} {', '.join(map(str, indices))}"
