"""What the REST API answers, as values. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

FINISHED = frozenset({"succeeded", "failed", "cancelled"})
DEPLOYED = frozenset({"complete", "failed", "cancelled", "evicted"})


class UnexpectedAnswer(Exception):
    """The server's answer lacks what every version of it has. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class Answer:
    @classmethod
    def of(cls, body: object) -> Self:
        """From a JSON object. Fields without a default are required; null counts as absent."""
        if not isinstance(body, Mapping):
            raise UnexpectedAnswer(
                f"The server answered with {type(body).__name__} where a {cls.__name__} was due."
            )
        known: dict[str, Any] = {}
        for declared in fields(cls):
            value = body.get(declared.name)
            if value is not None:
                known[declared.name] = value
            elif declared.default is MISSING and declared.default_factory is MISSING:
                raise UnexpectedAnswer(
                    f"The server's answer has no {declared.name}; is it Trainmaster, and as new as this?"
                )
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Me(Answer):
    username: str
    admin: bool = False
    teams: Mapping[str, str] = field(default_factory=dict)  # team to role
    token_name: str | None = None
    token_team: str | None = None
    token_expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Team(Answer):
    slug: str
    name: str = ""
    weight: int = 1
    department: str | None = None


@dataclass(frozen=True, slots=True)
class Quota(Answer):
    gpu_type: str
    guaranteed: int = 0
    maximum: int = 0
    held: int = 0  # GPUs in use
    borrowed: int = 0
    waiting: int = 0  # GPUs that waiting jobs ask for
    notice: str = ""


@dataclass(frozen=True, slots=True)
class QueueEntry(Answer):
    position: int
    name: str
    team: str
    job: str = ""  # empty for a job of another team
    user: str = ""
    gpus: int = 0
    gpu_type: str = ""
    priority: int = 50
    since_ms: int | None = None
    preempted: bool = False
    reserved: bool = False
    expected_start: str = ""  # in words; empty if unknown
    earliest_ms: int | None = None
    latest_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Job(Answer):
    id: str
    name: str
    team: str
    state: str
    url: str = ""
    user: str = ""
    project: str = ""
    stopping: str | None = None
    end: Mapping[str, Any] | None = None  # why it ended: reason, label, retried, counts, remedy
    reason: str = ""
    priority: int = 50
    num_gpus: int = 0
    gpu_type: str = ""
    attempt: int = 0
    restarts: int = 0
    submitted_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    latest_checkpoint: str = ""
    waiting: Mapping[str, Any] | None = None  # code, sentence, numbers, position
    progress: Mapping[str, Any] = field(default_factory=dict)  # step, total_steps, loss, remaining_ms, …
    mfu: float | None = None  # 0 to 1
    hang: str | None = None  # while it makes no progress: since when, and in which rank
    spec: Mapping[str, Any] = field(default_factory=dict)
    lineage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED


@dataclass(frozen=True, slots=True)
class DryRun(Answer):
    outcome: str  # starts, waits or refused
    why: str = ""
    position: int | None = None
    should_start: str = ""  # in words; "" where it is not in sight
    changes: Sequence[str] = ()  # each alone would start it now


@dataclass(frozen=True, slots=True)
class RunInfo(Answer):
    """A run as the platform has it; `trainmaster.run.Run` is the one that a script logs to."""

    id: str
    name: str
    team: str
    state: str
    experiment: str = ""
    description: str = ""
    job: str | None = None
    owner: str = ""
    parent: str | None = None
    group: str = ""
    source: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float | str] = field(
        default_factory=dict
    )  # last values; NaN and infinities by name
    lineage: Mapping[str, Any] = field(default_factory=dict)
    created_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    archived_ms: int | None = None
    deleted_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogLine(Answer):
    text: str
    rank: int = 0
    attempt: int = 0
    offset: int = 0
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogPage:
    lines: tuple[LogLine, ...]
    next: int  # give it as `after` to read on
    ended: bool  # no more lines will come


@dataclass(frozen=True, slots=True)
class Snapshot(Answer):
    id: str
    name: str = ""
    version: int = 0
    team: str = ""
    purpose: str = ""
    files: int = 0
    bytes: int = 0
    created_ms: int | None = None
    created_by: str = ""
    projects: Sequence[str] = ()
    state: str = "ready"  # or listing, hashing, failed, unchanged: a registration in place
    error: str = ""
    source: str = ""  # where its files lie; empty: it was uploaded
    manifest: str | None = None
    files_done: int = 0
    checked_ms: int | None = None
    check_result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment(Answer):
    id: int
    name: str
    team: str = ""
    runs: int = 0
    active: int = 0
    best: Mapping[str, Any] | None = None  # job, name, metric, rule, value
    created_ms: int | None = None
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison(Answer):
    """Runs side by side: each `values` has one for each run."""

    runs: Sequence[Mapping[str, Any]]  # job, name, state, experiment
    differences: Sequence[Mapping[str, Any]] = ()  # name, values
    metrics: Sequence[Mapping[str, Any]] = ()  # name, rule, values, best


@dataclass(frozen=True, slots=True)
class ModelVersion(Answer):
    id: str
    model: str  # team/name
    version: int
    state: str = ""
    error: str = ""
    source: str = ""
    manifest: str = ""
    bytes: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    created_ms: int | None = None
    stage: str = ""
    aliases: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    licence: str = ""
    formats: Sequence[str] = ()
    signature: Mapping[str, Any] = field(
        default_factory=dict
    )  # inputs and outputs, each with dtype and shape


@dataclass(frozen=True, slots=True)
class Deployment(Answer):
    id: str
    status: str
    model: str = ""
    version: int = 0
    estimated_time_seconds: float | None = None
    estimated_low_seconds: float | None = None
    estimated_high_seconds: float | None = None
    estimate_basis: str = ""
    progress: float = 0.0  # 0 to 1
    workers: int = 0
    workers_complete: int = 0
    workers_failed: int = 0
    workers_evicted: int = 0  # were complete, gave it up for room since
    strategy: str = ""
    strategies: Sequence[Mapping[str, Any]] = ()  # what each would have taken, the quickest first
    preheat: bool = False
    pinned: bool = False
    bytes_done: int = 0  # on all workers together
    bytes_total: int = 0
    rate: int = 0  # bytes per second into all workers together
    rollout: Mapping[str, Any] | None = None  # state, reason, nodes, nodes_active, canaries, checks, …
    reason: str = ""
    created_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None

    @property
    def is_finished(self) -> bool:
        return self.status in DEPLOYED

    @property
    def is_settled(self) -> bool:
        """Nothing more happens by itself: the files are there, and the rollout has ended or waits to be promoted."""
        rollout = self.rollout
        if rollout is None or self.status != "complete" or rollout.get("replaced_by"):
            return self.is_finished
        ended = rollout.get("state") in ("active", "failed") or self.has_gone_back
        return ended or bool(rollout.get("awaits_promotion"))

    @property
    def has_gone_back(self) -> bool:
        rollout = self.rollout or {}
        return rollout.get("state") == "rolled_back" and not rollout.get("nodes_going_back")

    @property
    def trouble(self) -> str:
        """Why the deployment or its rollout failed; empty while it may still succeed."""
        rollout = self.rollout or {}
        if self.is_finished and self.status != "complete":
            return f"{self.id} is {self.status}{f': {self.reason}' if self.reason else '.'}"
        if (state := rollout.get("state")) in ("failed", "rolled_back"):
            why = f": {rollout['reason']}" if rollout.get("reason") else "."
            return f"The rollout of {self.id} is {state.replace('_', ' ')}{why}"
        return ""


@dataclass(frozen=True, slots=True)
class Plan(Answer):
    """What each strategy would take, before anything moves."""

    model: str
    version: int
    strategy: str  # that would be taken
    bytes: int = 0
    workers: int = 0
    rate: int = 0  # bytes per second on each link
    nodes_capped: int = 0  # take or give less, by their own caps
    low_seconds: float | None = None  # an interval for the strategy that would be taken
    high_seconds: float | None = None
    rate_basis: str = ""
    measured_on: int = 0  # deployments
    bound_seconds: float = 0.0
    strategies: Sequence[
        Mapping[str, Any]
    ] = ()  # strategy, time_seconds, ratio, store_copies, …; quickest first
    short_of_room: Sequence[Mapping[str, Any]] = ()  # node, free: less than go there


@dataclass(frozen=True, slots=True)
class Node(Answer):
    id: str
    hostname: str
    state: str
    rack: str = ""
    reason: str = ""
    hardware_faults: Sequence[str] = ()
    out_of_service: str = ""
    slots_out_of_service: Mapping[str, str] = field(default_factory=dict)
    gpu_type: str = ""
    slots: int = 0
    slots_in_use: int = 0
    utilisation: float | None = None
    agent_version: str = ""
    last_seen_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Reproduction(Answer):
    """A job beside the one that it repeats."""

    repeats: str
    sentence: str = ""
    subjects: Sequence[Mapping[str, Any]] = ()
    metrics: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class ParallelismAdvice(Answer):
    """What the planner says of a training."""

    sentence: str
    parameters: int = 0
    plans: Sequence[Mapping[str, Any]] = ()
    refusal: str = ""
    too_large: Sequence[Mapping[str, Any]] = ()
    calibration: Mapping[str, Any] = field(default_factory=dict)
    scaling: Sequence[Mapping[str, Any]] = ()
