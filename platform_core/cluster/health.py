"""The life of a node as the platform sees it: heartbeats, silence, draining."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from platform_core.errors import IllegalTransition
from platform_core.jobs.effects import HintScheduler
from platform_core.units import SECOND_MS, format_duration_ms


class NodeState(StrEnum):
    READY = "ready"
    SUSPECT = "suspect"
    LOST = "lost"
    DRAINING = "draining"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The agent was heard; also the first word of a node that joins."""

    at_ms: int
    actor: str = "system"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Silence:
    """The shell's clock asks what the silence up to now means; the limits answer."""

    now_ms: int
    quiet_ms: int | None = None  # by a clock that nobody can set; None: since it was last seen
    lease_ended: bool = (
        True  # whether nothing that is leased can run there any more: before that no node is lost
    )
    actor: str = "system"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    at_ms: int
    actor: str = "system"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    at_ms: int
    actor: str = "system"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Emptied:
    """No slot of the node is held. The shell says it whenever it finds a draining node like that."""

    at_ms: int
    actor: str = "system"
    cause: str = ""


NodeEvent = Heartbeat | Silence | DrainRequested | ResumeRequested | Emptied

_STAY = {state: {state} for state in NodeState}
_READY, _SUSPECT, _LOST = NodeState.READY, NodeState.SUSPECT, NodeState.LOST
_DRAINING, _DRAINED = NodeState.DRAINING, NodeState.DRAINED

# Every pair is legal: nodes and operators may say anything at any time.
TRANSITIONS: dict[tuple[NodeState, type], frozenset[NodeState]] = {
    (state, event): frozenset(targets)
    for event, row in {
        Heartbeat: _STAY | {_SUSPECT: {_SUSPECT, _READY, _DRAINING}, _LOST: {_LOST, _READY, _DRAINING}},
        Silence: {state: {state, _SUSPECT, _LOST} for state in NodeState} | {_LOST: {_LOST}},
        DrainRequested: _STAY | {_READY: {_DRAINING}},
        ResumeRequested: _STAY | {_DRAINING: {_READY}, _DRAINED: {_READY}},
        Emptied: _STAY | {_DRAINING: {_DRAINED}},
    }.items()
    for state, targets in row.items()
}

DESCRIPTION: dict[NodeState, str] = {
    _READY: "It is heard from and takes work.",
    _SUSPECT: "It has been silent for a while: what runs there goes on, nothing new is placed.",
    _LOST: "It has been silent too long: what ran there counts as lost, and gangs start again elsewhere.",
    _DRAINING: "An operator asked for it: what runs there may end, nothing new is placed.",
    _DRAINED: "An operator asked for it, and nothing runs there any more.",
}


@dataclass(frozen=True, slots=True)
class HealthLimits:
    suspect_ms: int = 10 * SECOND_MS
    lost_ms: int = 30 * SECOND_MS

    def __post_init__(self) -> None:
        if not 0 < self.suspect_ms < self.lost_ms:
            limits = f"suspect after {self.suspect_ms} ms and lost after {self.lost_ms} ms"
            raise ValueError(f"{limits}: a node must be suspect before it is lost")


DEFAULT_LIMITS = HealthLimits()
LEAST_DISK_BYTES = 256 << 20  # with less, code, logs and checkpoints of a job find no room


def is_disk_full(free_bytes: int) -> bool:
    """0 is not known: an agent that has looked reports one byte at least."""
    return 0 < free_bytes < LEAST_DISK_BYTES


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """`drain_requested` outlives silence: a node that comes back is still to be drained."""

    id: str
    state: NodeState
    since_ms: int
    last_seen_ms: int
    drain_requested: bool = False
    reason: str = ""  # of the last change of state


@dataclass(frozen=True, slots=True)
class LoseMembers:
    """Every job with a living member on this node is to be told NodeLost."""

    node: str
    cause: str


NodeEffect = LoseMembers | HintScheduler


@dataclass(frozen=True, slots=True)
class NodeStep:
    health: NodeHealth
    effects: tuple[NodeEffect, ...] = ()


def advance(health: NodeHealth, event: NodeEvent, limits: HealthLimits = DEFAULT_LIMITS) -> NodeStep:
    """The node after the event; the same value when nothing changed but, at most, when it was last seen."""
    at_ms = event.now_ms if isinstance(event, Silence) else event.at_ms
    if isinstance(event, Heartbeat):
        health = replace(health, last_seen_ms=max(health.last_seen_ms, at_ms))
    elif isinstance(event, DrainRequested | ResumeRequested):
        health = replace(health, drain_requested=isinstance(event, DrainRequested))
    state, reason = _decide(health, event, limits)
    if state not in TRANSITIONS[health.state, type(event)]:
        story = f"{type(event).__name__} led {health.id} from {health.state} to {state}, against the table"
        raise IllegalTransition(health.id, health.state, type(event).__name__, story)
    if state is health.state:
        return NodeStep(health)
    effects: tuple[NodeEffect, ...] = ()
    if state is NodeState.LOST:
        effects = (LoseMembers(health.id, reason), HintScheduler())
    elif state is NodeState.READY:
        effects = (HintScheduler(),)
    return NodeStep(replace(health, state=state, since_ms=at_ms, reason=reason), effects)


def _decide(health: NodeHealth, event: NodeEvent, limits: HealthLimits) -> tuple[NodeState, str]:
    """The state that the event leads to, and why."""
    who = event.actor.removeprefix("user:")
    because = f": {event.cause}" if event.cause else ""
    state = health.state
    match event:
        case Heartbeat(at_ms=at_ms) if state in (_SUSPECT, _LOST) and at_ms >= health.last_seen_ms:
            back = f"heard again after {format_duration_ms(max(0, at_ms - health.since_ms))}"
            return (_DRAINING if health.drain_requested else _READY), f"{back} as {state}"
        case Silence(now_ms=now_ms, quiet_ms=quiet_ms):
            quiet_ms = now_ms - health.last_seen_ms if quiet_ms is None else quiet_ms
            return _meaning_of_silence(health, quiet_ms, event.lease_ended, limits)
        case DrainRequested() if state is _READY:
            return _DRAINING, f"drained by {who}{because}"
        case ResumeRequested() if state in (_DRAINING, _DRAINED):
            return _READY, f"resumed by {who}{because}"
        case Emptied() if state is _DRAINING:
            return _DRAINED, "; ".join(filter(None, (health.reason, "nothing runs there any more")))
    return state, health.reason


def _meaning_of_silence(
    health: NodeHealth, quiet_ms: int, lease_ended: bool, limits: HealthLimits
) -> tuple[NodeState, str]:
    sentence = f"no heartbeat for {format_duration_ms(max(0, quiet_ms))}, the limit is "
    if quiet_ms >= limits.lost_ms and lease_ended and health.state is not _LOST:
        return _LOST, sentence + format_duration_ms(limits.lost_ms)
    if quiet_ms >= limits.suspect_ms and health.state not in (_SUSPECT, _LOST):
        return _SUSPECT, sentence + format_duration_ms(limits.suspect_ms)
    return health.state, health.reason
