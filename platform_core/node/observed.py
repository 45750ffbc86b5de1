"""The observed state of one node: the other half of `reconcile`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.stacks import RankStack
from platform_core.node.wanted import DeploymentWanted


@dataclass(frozen=True, slots=True)
class HangObserved:
    """The ranks of this node make no progress, and their stacks do not move."""

    at_ms: int  # of the judgement, by the node's clock
    silent_ms: int
    limit_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class StacksObserved:
    """The newest stack dumps of an attempt's ranks on one node; the whole text is in the log."""

    order: int  # the last one that it answers; 0: none, the agent took them by itself
    at_ms: int
    ranks: tuple[RankStack, ...]


@dataclass(frozen=True, slots=True)
class StartPhase:
    """One phase between the order to start an attempt and its processes, by the node's clock."""

    name: str
    began_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True)
class AttemptObserved:
    """One node's part of an attempt."""

    attempt_id: str
    phase: MemberPhase
    exit_code: int = 0  # once exited; 128 + signal for a killed process
    reason: str = ""
    end: EndReason = EndReason.SCRIPT_ERROR  # once exited
    uplink_drained: bool = False  # every metric, log line and checkpoint of it has been acknowledged
    resume_damaged: bool = False  # the checkpoint to resume from is not what was saved; `reason` says why
    stacks: StacksObserved | None = None
    hang: HangObserved | None = None  # None again as soon as there is progress
    phases: tuple[
        StartPhase, ...
    ] = ()  # of its start, each once it is over; empty in an agent that adopted it
    stopping: bool = False  # the agent's own: a stop was ordered and is being carried out


class TransferState(StrEnum):
    IDLE = "idle"
    RECEIVING = "receiving"
    VERIFYING = "verifying"
    COMPLETE = "complete"
    FAILED = "failed"
    EVICTED = "evicted"  # removed for free space after it was complete


@dataclass(frozen=True, slots=True)
class DeploymentObserved:
    """How far one deployment is on this node."""

    deployment_id: str
    state: TransferState
    bytes_done: int = 0
    bytes_total: int = 0
    chunks_done: bytes = b""  # bitmap: chunk i is bit i % 8 of byte i // 8
    rate_in: float = 0.0  # bytes per second
    rate_out: float = 0.0
    source: str = ""  # of the last piece: a node id or STORE
    error_code: str = ""
    error: str = ""  # why it failed; before that, why it tried again last
    retries: int = 0
    distrusted: tuple[str, ...] = ()  # sources that sent bytes with another SHA-256
    store_bytes: int = 0  # read from the store since the agent began
    held: tuple[int, ...] = ()  # bytes, by lane
    refused_bytes: int = 0  # bytes with another SHA-256, since the agent began
    acting_on: DeploymentWanted | None = None  # the agent's own: the order it follows; None after a restart


class ActivationState(StrEnum):
    SWITCHING = "switching"
    ACTIVE = "active"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActivationObserved:
    """What came of the newest order for a model."""

    model: str
    version: str  # to which the model's link points
    deployment_id: str
    revision: int
    state: ActivationState
    exit_code: int = 0  # of the hook
    output: str = ""  # the end of it
    round: int = 0  # of the last health check; 0: none yet
    check_exit_code: int = 0
    check_output: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything a node has: what is not named is not there."""

    attempts: tuple[AttemptObserved, ...] = ()
    deployments: tuple[DeploymentObserved, ...] = ()
    activations: tuple[ActivationObserved, ...] = ()
