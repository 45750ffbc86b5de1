"""One retraining cycle, from its trigger to the version that takes over: a machine, and what is to be done in a state.

The shell looks at `todo`, does it, and feeds what came of it back as an event in the transaction of what it did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from platform_core.errors import IllegalTransition


class CycleState(StrEnum):
    REQUESTED = "requested"
    SUBMITTING = "submitting"
    TRAINING = "training"
    EVALUATING = "evaluating"
    PROVEN = "proven"
    DEPLOYING = "deploying"
    CANARY = "canary"
    PROMOTED = "promoted"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"
    CANCELLED = "cancelled"


S = CycleState
ENDED = frozenset({S.PROMOTED, S.ACCEPTED, S.REFUSED, S.ROLLED_BACK, S.FAILED, S.CANCELLED})
SUCCEEDED = frozenset({S.PROMOTED, S.ACCEPTED})
ASKS = frozenset({S.REQUESTED, S.PROVEN})  # for an approval

DESCRIPTION: dict[CycleState, str] = {
    S.REQUESTED: "A lead must approve the training job.",
    S.SUBMITTING: "Its job is submitted in the next round, or as soon as the quota allows it.",
    S.TRAINING: "Its job waits or runs; the newest checkpoint becomes a version of the model.",
    S.EVALUATING: "The server evaluates the version by the suites of its gate.",
    S.PROVEN: "The version passed the gate. A lead must approve the canary.",
    S.DEPLOYING: "The canary starts as soon as the endpoint watches no other one.",
    S.CANARY: "The endpoint watches the version with a part of the requests.",
    S.PROMOTED: "The version took over.",
    S.ACCEPTED: "The version passed the gate; the policy names no endpoint.",
    S.REFUSED: "The version did not pass the gate.",
    S.ROLLED_BACK: "The canary was rolled back.",
    S.FAILED: "A step could not be done.",
    S.CANCELLED: "A person ended it.",
}


@dataclass(frozen=True, slots=True)
class Cycle:
    """Only `advance` makes a new value."""

    id: str
    state: CycleState
    approve_canary: bool
    has_endpoint: bool
    job: str = ""
    version: str = ""
    reason: str = ""
    approved_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Approved:
    actor: str


@dataclass(frozen=True, slots=True)
class Submitted:
    job: str


@dataclass(frozen=True, slots=True)
class Delayed:
    """The step may be possible in a while: the quota is full, another canary is watched."""

    why: str


@dataclass(frozen=True, slots=True)
class Registered:
    version: str


@dataclass(frozen=True, slots=True)
class Judged:
    """By the gate. No refusals: the version passed."""

    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CanaryStarted:
    pass


@dataclass(frozen=True, slots=True)
class CanaryEnded:
    promoted: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class Broke:
    """A step that will not be possible later either."""

    why: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    actor: str


Event = Approved | Submitted | Delayed | Registered | Judged | CanaryStarted | CanaryEnded | Broke | Cancelled

_OPEN = frozenset(CycleState) - ENDED
TRANSITIONS: dict[type, frozenset[CycleState]] = {
    Approved: ASKS,
    Submitted: frozenset({S.SUBMITTING}),
    Delayed: frozenset({S.SUBMITTING, S.DEPLOYING}),
    Registered: frozenset({S.TRAINING}),
    Judged: frozenset({S.EVALUATING}),
    CanaryStarted: frozenset({S.DEPLOYING}),
    CanaryEnded: frozenset({S.CANARY}),
    Broke: _OPEN,
    Cancelled: _OPEN,
}


class Todo(StrEnum):
    """What the shell does for a cycle in this state."""

    NOTHING = "nothing"
    SUBMIT = "submit"
    FOLLOW_JOB = "follow_job"
    ASK_GATE = "ask_gate"
    START_CANARY = "start_canary"
    FOLLOW_CANARY = "follow_canary"


_TODO = {
    S.SUBMITTING: Todo.SUBMIT, S.TRAINING: Todo.FOLLOW_JOB, S.EVALUATING: Todo.ASK_GATE,
    S.DEPLOYING: Todo.START_CANARY, S.CANARY: Todo.FOLLOW_CANARY,
}  # fmt: skip


def todo(cycle: Cycle) -> Todo:
    return _TODO.get(cycle.state, Todo.NOTHING)


def begin(key: str, *, approve_training: bool, approve_canary: bool, has_endpoint: bool) -> Cycle:
    return Cycle(key, S.REQUESTED if approve_training else S.SUBMITTING, approve_canary, has_endpoint)


def advance(cycle: Cycle, event: Event) -> Cycle:
    """Raises IllegalTransition for an event that the state does not allow."""
    if cycle.state not in TRANSITIONS[type(event)]:
        raise IllegalTransition(f"retraining cycle {cycle.id}", cycle.state.value, type(event).__name__)
    match event:
        case Approved(actor):
            state = S.SUBMITTING if cycle.state is S.REQUESTED else S.DEPLOYING
            return replace(cycle, state=state, reason="", approved_by=(*cycle.approved_by, actor))
        case Submitted(job):
            return replace(cycle, state=S.TRAINING, job=job, reason="")
        case Delayed(why):
            return replace(cycle, reason=why)
        case Registered(version):
            return replace(cycle, state=S.EVALUATING, version=version, reason="")
        case Judged(refusals):
            return replace(cycle, state=_judged(cycle, refusals), reason="; ".join(refusals))
        case CanaryStarted():
            return replace(cycle, state=S.CANARY, reason="")
        case CanaryEnded(promoted, verdict):
            return replace(cycle, state=S.PROMOTED if promoted else S.ROLLED_BACK, reason=verdict)
        case Broke(why):
            return replace(cycle, state=S.FAILED, reason=why)
        case Cancelled(actor):
            return replace(cycle, state=S.CANCELLED, reason=f"cancelled by {actor}")


def _judged(cycle: Cycle, refusals: tuple[str, ...]) -> CycleState:
    if refusals:
        return S.REFUSED
    if not cycle.has_endpoint:
        return S.ACCEPTED
    return S.PROVEN if cycle.approve_canary else S.DEPLOYING
