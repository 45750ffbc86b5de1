"""What this node has, as frozen values: the other half of `reconcile`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.wanted import DeploymentWanted
from platform_core.jobs.job import EndKind


class Phase(StrEnum):
    PREPARING = "preparing"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class AttemptObserved:
    attempt_id: str
    phase: Phase
    stopping: bool = False  # a stop has been ordered and is being carried out
    exit_code: int = 0  # with EXITED; 128 + signal for a killed process
    reason: str = ""
    end: EndKind = EndKind.SCRIPT  # with EXITED
    uplink_drained: bool = False
    resume_damaged: bool = False  # not the bytes that were saved; `reason` says why


class DeploymentPhase(StrEnum):
    IDLE = "idle"
    RECEIVING = "receiving"
    VERIFYING = "verifying"
    COMPLETE = "complete"
    FAILED = "failed"
    EVICTED = "evicted"  # given up for room after it was complete


@dataclass(frozen=True, slots=True)
class DeploymentObserved:
    deployment_id: str
    phase: DeploymentPhase
    acting_on: DeploymentWanted | None = None  # the order it follows; None after a restart of the agent
    bytes_done: int = 0
    bytes_total: int = 0
    chunks_done: bytes = b""
    rate_in: float = 0.0
    rate_out: float = 0.0
    source: str = ""
    error_code: str = ""
    error: str = ""
    retries: int = 0
    distrusted: tuple[str, ...] = ()  # who sent bytes with another SHA-256
    store_bytes: int = 0
    held: tuple[int, ...] = ()  # bytes, by lane
    refused_bytes: int = 0


class ActivationPhase(StrEnum):
    SWITCHING = "switching"
    ACTIVE = "active"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActivationObserved:
    """What came of the newest order for a model. `version`: what its link points to."""

    model: str
    version: str
    deployment_id: str
    revision: int
    phase: ActivationPhase
    exit_code: int = 0
    output: str = ""
    round: int = 0  # of the last health check, 0 is none
    check_exit_code: int = 0
    check_output: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    attempts: tuple[AttemptObserved, ...] = ()
    deployments: tuple[DeploymentObserved, ...] = ()
    activations: tuple[ActivationObserved, ...] = ()
