"""The state machines of a deployment and of its workers: one table each, then `advance`.

A failed worker does not fail the deployment unless all fail; one that returns resumes where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from platform_core.errors import IllegalTransition


class DeploymentState(StrEnum):
    INIT = "init"
    DOWNLOADING = "downloading"
    DISTRIBUTING = "distributing"
    VERIFYING = "verifying"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WorkerState(StrEnum):
    IDLE = "idle"
    RECEIVING = "receiving"
    COMPLETE = "complete"
    FAILED = "failed"
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True)
class WorkerReported:
    """An agent reports its part; FAILED also when the platform has lost the node."""

    node: str
    state: WorkerState
    bytes_done: int
    at_ms: int
    actor: str
    cause: str
    verifying: bool = False
    from_peer: bool = False  # it receives from another worker just now
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """Failed workers try again, and workers that evicted the model fetch it again."""

    at_ms: int
    actor: str
    cause: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    at_ms: int
    actor: str
    cause: str


Event = WorkerReported | RetryRequested | CancelRequested

_D = DeploymentState
_ENDED = {_D.COMPLETE, _D.FAILED}

# Phases go forward, except that a worker which comes back, or has lost its copy, takes the deployment back with it.
# COMPLETE stays: stragglers catch up, the outcome is the same.
TRANSITIONS: dict[tuple[DeploymentState, type[Event]], frozenset[DeploymentState]] = {
    pair: frozenset(targets)
    for pair, targets in {
        (_D.INIT, WorkerReported): {_D.INIT, _D.DOWNLOADING, _D.DISTRIBUTING, _D.VERIFYING, *_ENDED},
        (_D.DOWNLOADING, WorkerReported): {_D.DOWNLOADING, _D.DISTRIBUTING, _D.VERIFYING, *_ENDED},
        (_D.DISTRIBUTING, WorkerReported): {_D.DOWNLOADING, _D.DISTRIBUTING, _D.VERIFYING, *_ENDED},
        (_D.VERIFYING, WorkerReported): {_D.DOWNLOADING, _D.DISTRIBUTING, _D.VERIFYING, *_ENDED},
        (_D.FAILED, WorkerReported): {_D.DOWNLOADING, _D.DISTRIBUTING, _D.VERIFYING, *_ENDED},
        (_D.COMPLETE, WorkerReported): {_D.COMPLETE},
        (_D.CANCELLED, WorkerReported): {_D.CANCELLED},
        (_D.INIT, RetryRequested): {_D.INIT},
        (_D.DOWNLOADING, RetryRequested): {_D.DOWNLOADING},
        (_D.DISTRIBUTING, RetryRequested): {_D.DISTRIBUTING, _D.DOWNLOADING},
        (_D.VERIFYING, RetryRequested): {_D.VERIFYING, _D.DISTRIBUTING, _D.DOWNLOADING},
        (_D.FAILED, RetryRequested): {_D.DOWNLOADING, _D.DISTRIBUTING},
        (_D.COMPLETE, RetryRequested): {_D.COMPLETE},
        (_D.INIT, CancelRequested): {_D.CANCELLED},
        (_D.DOWNLOADING, CancelRequested): {_D.CANCELLED},
        (_D.DISTRIBUTING, CancelRequested): {_D.CANCELLED},
        (_D.VERIFYING, CancelRequested): {_D.CANCELLED},
    }.items()
}

_W = WorkerState
# A complete worker that receives again has lost its copy; a failed one has come back. One that was evicted gave its
# copy up for room: the work was done, and is done again when somebody asks for it.
WORKER_TRANSITIONS: dict[WorkerState, frozenset[WorkerState]] = {
    _W.IDLE: frozenset(_W),
    _W.RECEIVING: frozenset({_W.RECEIVING, _W.COMPLETE, _W.FAILED, _W.EVICTED}),
    _W.FAILED: frozenset(_W),
    _W.COMPLETE: frozenset({_W.COMPLETE, _W.RECEIVING, _W.FAILED, _W.EVICTED}),
    _W.EVICTED: frozenset(_W),
}

_DONE = frozenset({_W.COMPLETE, _W.EVICTED})
TERMINAL = frozenset({_D.COMPLETE, _D.FAILED, _D.CANCELLED})
ACTIVE = frozenset(_D) - TERMINAL
DESCRIPTION: dict[DeploymentState, str] = {
    _D.INIT: "The nodes have been told; none has begun.",
    _D.DOWNLOADING: "The first node pulls from the store.",
    _D.DISTRIBUTING: "Nodes pass verified pieces on to each other.",
    _D.VERIFYING: "Every byte has arrived; the nodes check each whole file's SHA-256.",
    _D.COMPLETE: "Every node that could be reached holds the verified model.",
    _D.FAILED: "No node could finish.",
    _D.CANCELLED: "Somebody cancelled it; the nodes remove what they had received.",
}


@dataclass(frozen=True, slots=True)
class Worker:
    node: str
    position: int  # in the chain, 0 pulls from the store
    state: WorkerState
    bytes_total: int
    bytes_done: int = 0
    verifying: bool = False
    from_peer: bool = False  # something of what it has came from another worker
    error_code: str = ""
    error: str = ""
    started_ms: int | None = None
    finished_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """Only `advance` makes a new value; `version` grows by one with every change."""

    id: str
    state: DeploymentState
    version: int
    workers: tuple[Worker, ...]
    created_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TellWorkers:
    """The wanted state of these nodes has changed."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeploymentEnded:
    outcome: DeploymentState
    reason: str


Effect = TellWorkers | DeploymentEnded


@dataclass(frozen=True, slots=True)
class Step:
    deployment: Deployment
    effects: tuple[Effect, ...] = ()


def advance(deployment: Deployment, event: Event) -> Step:
    """The deployment after the event; IllegalTransition for a pair or an outcome outside the table."""
    allowed = TRANSITIONS.get((deployment.state, type(event)))
    if allowed is None:
        raise _illegal(deployment, event, "that is not possible in this state")
    effects: tuple[Effect, ...] = ()
    if isinstance(event, WorkerReported):
        after = _reported(deployment, event)
        effects = _gave_up(deployment, after)
    elif isinstance(event, RetryRequested):
        after, effects = _retried(deployment)
    else:
        after, effects = _cancelled(deployment, event)
    if after.state not in allowed:
        raise _illegal(deployment, event, f"it would lead to {after.state}")
    if after == deployment:
        return Step(deployment)
    if after.state in TERMINAL and deployment.state != after.state:
        after = replace(after, finished_ms=event.at_ms)
        effects += (DeploymentEnded(after.state, after.reason),)
    elif after.state not in TERMINAL and deployment.state in TERMINAL:
        after = replace(after, finished_ms=None)
    return Step(replace(after, version=deployment.version + 1), effects)


def _reported(deployment: Deployment, event: WorkerReported) -> Deployment:
    if deployment.state is _D.CANCELLED:
        return deployment
    workers = tuple(
        _observe(worker, event) if worker.node == event.node else worker for worker in deployment.workers
    )
    after = _together(deployment, workers)
    begins = after.started_ms is None and after.state is not _D.INIT
    return replace(after, started_ms=event.at_ms) if begins else after


def _together(deployment: Deployment, workers: tuple[Worker, ...]) -> Deployment:
    """A completed deployment stays complete while more workers catch up."""
    state = _D.COMPLETE if deployment.state is _D.COMPLETE else state_of(workers)
    return replace(deployment, workers=workers, state=state, reason=_reason(state, workers))


def _gave_up(deployment: Deployment, after: Deployment) -> tuple[Effect, ...]:
    """Nodes that have just evicted their copy. It is no longer wanted of them, or they would fetch it again."""
    evicted = tuple(
        new.node
        for old, new in zip(deployment.workers, after.workers, strict=True)
        if new.state is _W.EVICTED and old.state is not _W.EVICTED
    )
    return (TellWorkers(evicted),) if evicted else ()


def _observe(worker: Worker, event: WorkerReported) -> Worker:
    if event.state not in WORKER_TRANSITIONS[worker.state]:
        return worker  # an old report overtaken by a newer one
    ended = event.state in (*_DONE, _W.FAILED)
    verifies_again = event.bytes_done >= worker.bytes_total  # as an agent does that has restarted
    finished = worker.finished_ms if ended or verifies_again else None
    started = worker.started_ms if worker.started_ms is not None or event.state is _W.IDLE else event.at_ms
    explained = event.state in (_W.FAILED, _W.EVICTED)
    return replace(
        worker,
        state=event.state,
        bytes_done=worker.bytes_total if event.state in _DONE else event.bytes_done,
        verifying=event.verifying and event.state is _W.RECEIVING,
        from_peer=event.from_peer or worker.from_peer,
        error_code=event.error_code if explained else "",
        error=event.error if explained else "",
        started_ms=started,
        finished_ms=finished or (event.at_ms if ended else None),
    )


def counted(worker: Worker, event: WorkerReported) -> int | None:
    """The deployment with new byte counts only, for a report that changes no phase and affects no other worker."""
    after = _observe(worker, event)
    was_full, is_full = (each.bytes_done >= each.bytes_total for each in (worker, after))
    same = was_full == is_full and replace(after, bytes_done=worker.bytes_done) == worker
    return after.bytes_done if same else None


def state_of(workers: tuple[Worker, ...]) -> DeploymentState:
    """The common phase of the workers: that of the slowest."""
    states = {worker.state for worker in workers}
    if states <= {_W.FAILED}:
        return _D.FAILED
    if states <= {*_DONE, _W.FAILED}:
        return _D.COMPLETE
    busy = [worker for worker in workers if worker.state in (_W.IDLE, _W.RECEIVING)]
    if all(worker.verifying for worker in busy):
        return _D.VERIFYING
    if any(worker.from_peer or worker.state in _DONE for worker in workers):
        return _D.DISTRIBUTING
    if any(worker.started_ms is not None for worker in workers):
        return _D.DOWNLOADING
    return _D.INIT


def _reason(state: DeploymentState, workers: tuple[Worker, ...]) -> str:
    failed = [worker for worker in workers if worker.state is _W.FAILED]
    if state is _D.FAILED:
        return f"All {len(workers)} nodes failed; {failed[0].node}: {failed[0].error}"
    if state is _D.COMPLETE and failed:
        done = f"{len(workers) - len(failed)} of {len(workers)} nodes are done"
        return f"{done}; {failed[0].node} failed: {failed[0].error}"
    return ""


def _retried(deployment: Deployment) -> tuple[Deployment, tuple[Effect, ...]]:
    again = tuple(worker.node for worker in deployment.workers if worker.state in (_W.FAILED, _W.EVICTED))
    if not again:
        return deployment, ()
    workers = tuple(_afresh(worker) if worker.node in again else worker for worker in deployment.workers)
    return _together(deployment, workers), (TellWorkers(again),)


def _afresh(worker: Worker) -> Worker:
    here = worker.bytes_done if worker.state is _W.FAILED else 0
    return replace(worker, state=_W.IDLE, bytes_done=here, error_code="", error="", finished_ms=None)


def _cancelled(deployment: Deployment, event: CancelRequested) -> tuple[Deployment, tuple[Effect, ...]]:
    who = event.actor.removeprefix("user:")
    after = replace(deployment, state=_D.CANCELLED, reason=f"cancelled by {who}: {event.cause}")
    return after, (TellWorkers(tuple(worker.node for worker in deployment.workers)),)


def _illegal(deployment: Deployment, event: Event, why: str) -> IllegalTransition:
    name = type(event).__name__
    sentence = f"Deployment {deployment.id} is {deployment.state}; {name} by {event.actor}: {why}"
    return IllegalTransition(f"deployment {deployment.id}", deployment.state, name, sentence)
