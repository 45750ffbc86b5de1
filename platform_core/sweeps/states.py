"""A sweep and its trials as values, their states, and what can happen to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.field_readers import Scalar
from platform_core.sweeps.definition import Budget, SweepSpec


class SweepState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    OUT_OF_BUDGET = "out_of_budget"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class TrialState(StrEnum):
    PROPOSED = "proposed"
    SUBMITTED = "submitted"
    RUNNING = "running"
    PRUNED = "pruned"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({TrialState.PRUNED, TrialState.SUCCEEDED, TrialState.FAILED, TrialState.CANCELLED})

DESCRIPTION: dict[SweepState, str] = {
    SweepState.RUNNING: "It proposes settings and submits trials as far as its parallelism and budget allow.",
    SweepState.PAUSED: "It submits nothing new; trials that have begun go on. A person, a refused trial or failures in "
    "a row paused it.",
    SweepState.OUT_OF_BUDGET: "Its GPU-hours, cost or time are used up, so its trials were stopped. A higher budget "
    "lets it go on.",
    SweepState.FINISHED: "Every trial of its budget, or of its grid, has ended. A higher budget of trials lets it go "
    "on.",
    SweepState.CANCELLED: "A person ended it; its trials were stopped.",
}
TRIAL_DESCRIPTION: dict[TrialState, str] = {
    TrialState.PROPOSED: "Its parameters are chosen; no job runs it yet.",
    TrialState.SUBMITTED: "Its job waits for GPUs.",
    TrialState.RUNNING: "Its job runs, or waits to resume after a preemption.",
    TrialState.PRUNED: "Early stopping ended it: its values were worse than those of others at the same step.",
    TrialState.SUCCEEDED: "It ran to its end and reported the metric of the sweep.",
    TrialState.FAILED: "Its job failed, or ended without a value of the metric.",
    TrialState.CANCELLED: "A person, the end of the sweep or its budget stopped it.",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """`reports` has the values at the rungs of early stopping. `settled`: no job of it runs any more."""

    number: int
    parameters: tuple[tuple[str, Scalar], ...]
    state: TrialState = TrialState.PROPOSED
    job: str = ""
    reports: tuple[tuple[int, float], ...] = ()
    value: float | None = None
    step: int | None = None
    reason: str = ""
    settled: bool = False
    proposed_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Sweep:
    """Trials in the order of their numbers, which count from 1. Only `advance` makes a new value."""

    id: str
    spec: SweepSpec
    created_ms: int
    trials: tuple[Trial, ...] = ()
    state: SweepState = SweepState.RUNNING
    version: int = 1
    reason: str = ""
    exhausted: bool = False  # there is no other setting
    failures: int = 0  # in a row
    gpu_ms: int = 0
    micro_dollars: int = 0
    ended_ms: int | None = None

    @property
    def active(self) -> int:
        """Trials that a job or a program works on."""
        return sum(not trial.settled and trial.state is not TrialState.PROPOSED for trial in self.trials)

    @property
    def room(self) -> int:
        """How many more settings may be proposed now."""
        if self.state is not SweepState.RUNNING or self.exhausted:
            return 0
        unsettled = sum(not trial.settled for trial in self.trials)
        limit = self.spec.budget.trials
        left = limit - len(self.trials) if limit else self.spec.parallel
        return max(0, min(self.spec.parallel - unsettled, left))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed(Event):
    """The setting of the next trial."""

    number: int
    parameters: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceExhausted(Event):
    """There is no setting that was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSubmitted(Event):
    number: int
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRefused(Event):
    """The job was not accepted; `why` is the sentence of the refusal."""

    number: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted(Event):
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReported(Event):
    """Values at rungs of early stopping, (step, value) in the order of the steps."""

    number: int
    reports: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded(Event):
    """Its job has ended. `value` is that of the objective, None if the metric was never reported."""

    number: int
    outcome: TrialState  # succeeded, failed or cancelled
    value: float | None = None
    step: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed(Event):
    """What the trials have cost so far."""

    gpu_ms: int
    micro_dollars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested(Event):
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChanged(Event):
    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    actor: str


TrialEvent = TrialSubmitted | TrialRefused | TrialStarted | TrialReported | TrialEnded
SweepEvent = (
    Proposed | SpaceExhausted | TrialEvent | TimePassed | PauseRequested | ResumeRequested | BudgetChanged
    | CancelRequested
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit the trial as a job, under a key of the sweep and the number: twice gives the same job."""

    trial: Trial


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the trial's job; a job that has ended stays as it is."""

    trial: Trial


Effect = Submit | Stop


@dataclass(frozen=True, slots=True)
class Step:
    sweep: Sweep
    effects: tuple[Effect, ...] = ()
