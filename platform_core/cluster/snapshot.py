"""The cluster at one instant, as the scheduler sees it. `now_ms` is a field: nothing here reads a clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from platform_core.cluster.health import NodeState
from platform_core.cluster.topology import Islands
from platform_core.jobs.constraints import ANYWHERE, Constraints
from platform_core.jobs.spec import JobSpec


@dataclass(frozen=True, slots=True)
class NodeView:
    id: str
    hostname: str
    rack: str
    block: str
    gpu_type: str
    slots: int
    free_slots: tuple[int, ...]  # indices, ascending
    state: NodeState
    labels: tuple[tuple[str, str], ...]
    cpus: int
    memory_bytes: int
    taints: tuple[str, ...] = ()  # keep away whoever does not tolerate them
    windows: tuple[tuple[int, int], ...] = ()  # (begin, end) of booked maintenance that is not over
    islands: Islands = ()  # slots that are linked with each other; () where all are alike
    disk_full: bool = False
    out_of_service: bool = False  # by the health of its devices

    @property
    def takes_work(self) -> bool:
        """Only a ready node in service with room on its disk; a draining one finishes what it has."""
        return self.state is NodeState.READY and not self.disk_full and not self.out_of_service


class PlaceStep(NamedTuple):
    """What the planner says a training step takes on so many nodes in at most so many racks."""

    nodes: int
    racks: int
    step_us: int


class RankTraffic(NamedTuple):
    """Bytes of a training step: between two GPUs of neighbouring stages, and what each sends in its data group."""

    pipeline: int
    data: int

    def between_nodes(self, slots_each: int, tensor: int) -> RankTraffic:
        """Of two neighbouring nodes: each GPU has a neighbour in the next stage, and of a data group one GPU of each
        node sends to the next node."""
        return RankTraffic(self.pipeline * slots_each, self.data * tensor)


# Where nobody knows the model: data groups send while the backward pass goes on, and a stage waits for its neighbour.
UNKNOWN_TRAFFIC = RankTraffic(1, 0)


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job without slots: never placed, or preempted and waiting to resume."""

    id: str
    team: str
    user: str
    num_gpus: int
    min_gpus: int
    gpu_type: str
    priority: int  # 0 is the most urgent, 100 the least
    submitted_ms: int
    excluded_nodes: tuple[str, ...]  # where it failed
    preemptible: bool
    max_runtime_ms: int
    waiting_since_ms: int
    cpus_per_gpu: int
    memory_per_gpu_bytes: int
    attained_gpu_ms: int = 0  # GPU time it has had in earlier attempts
    expected_runtime_ms: int | None = None  # what is left to run, where an estimate beats the limit
    constraints: Constraints = ANYWHERE
    resize_to: int = 0  # it was stopped to restart with at most so many GPUs; 0: it was not
    resize_on: tuple[str, ...] = ()  # the nodes on which it ran until then, and which it prefers
    # Nodes from which others migrated for it, or to which it migrates itself.
    reserved_nodes: tuple[str, ...] = ()
    reserved_until_ms: int | None = None  # None: until it starts
    not_before_ms: int = 0  # it failed and restarts from then on
    kept_slots: tuple[tuple[str, int], ...] = ()  # (node, slots) that its failed attempt had on healthy nodes
    kept_until_ms: int = 0  # how long they are held for it
    warm_nodes: tuple[str, ...] = ()  # where its files are, of a gang with spare nodes that restarts
    tensor: int = 1  # GPUs that one node must have together
    group: int = 1  # GPUs that one node should have together: tensor and context ranks
    replica: int = 1  # GPUs by which it may grow or shrink
    stages: int = 1  # of its pipeline
    traffic: RankTraffic = UNKNOWN_TRAFFIC
    holders: tuple[str, ...] = ()  # nodes that hold its dataset, which it prefers among equally good ones
    place_steps: tuple[PlaceStep, ...] = ()  # by its layout, the fastest first; () where nothing is known
    planned_ms: int = 0  # the whole training at the fastest of them; 0 is not known
    offered_ms: int = 0  # since when it has left free places for a better one; 0: it has not
    on_nodes: int = 0  # asks for exactly so many; 0: as few as an idle cluster needs

    @classmethod
    def of_spec(
        cls, spec: JobSpec, *, id: str, user: str, submitted_ms: int, waiting_since_ms: int
    ) -> PendingJob:
        """A job as it was submitted; `replace` adds what its attempts have changed."""
        return cls(
            id=id,
            team=spec.team,
            user=user,
            num_gpus=spec.num_gpus,
            min_gpus=spec.min_gpus,
            gpu_type=spec.gpu_type,
            priority=spec.priority,
            submitted_ms=submitted_ms,
            excluded_nodes=(),
            preemptible=spec.preemptible,
            max_runtime_ms=spec.max_runtime_ms,
            waiting_since_ms=waiting_since_ms,
            cpus_per_gpu=spec.cpus_per_gpu,
            memory_per_gpu_bytes=spec.memory_per_gpu_bytes,
            constraints=spec.constraints,
            tensor=spec.parallel.tp,
            group=spec.parallel.tp * spec.parallel.cp,
            replica=spec.parallel.replica,
            stages=spec.parallel.pp,
        )


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds slots, from scheduled to its last member's end."""

    id: str
    team: str
    gpu_type: str
    priority: int
    placement: tuple[tuple[str, tuple[int, ...]], ...]  # (node id, slot indices)
    started_ms: int
    expected_end_ms: int | None
    last_checkpoint_ms: int | None
    preemptible: bool
    num_gpus: int
    min_gpus: int
    submitted_ms: int = 0
    attained_gpu_ms: int = 0  # in attempts before this one
    max_runtime_ms: int = 0  # the user's limit; 0 where none is known
    saves_when_stopped: bool = False  # does it write a checkpoint when it is told to stop?
    asks: PendingJob | None = None  # what it would ask for if it waited; known of those that may be stopped
    stopping: bool = False  # it was told to stop and gives its slots within a minute or so
    restart_ms: int | None = None  # what it takes to start it again, where that was measured
    preemptions: int = 0  # how many of its attempts were stopped to give up their slots
    kept_slots: tuple[tuple[str, int], ...] = ()  # of members that have ended while the gang stops to restart
    kept_until_ms: int = 0
    losses_ms: tuple[
        int, ...
    ] = ()  # when attempts of an elastic job ended because a machine failed, ascending
    held: int = field(init=False, compare=False, repr=False)  # slots; an elastic job may ask for more

    def __post_init__(self) -> None:
        # Counted once: a round asks for it several times of each job.
        object.__setattr__(self, "held", sum([len(slots) for _, slots in self.placement]))


@dataclass(frozen=True, slots=True)
class TeamShare:
    team: str
    gpu_type: str
    guaranteed: int
    maximum: int
    used: int
    weight: float
    usage_share: float  # recent usage divided by what the team deserves; 1.0 is exactly its share


@dataclass(frozen=True, slots=True)
class Snapshot:
    now_ms: int
    nodes: tuple[NodeView, ...]
    pending: tuple[PendingJob, ...]
    running: tuple[RunningJob, ...]
    teams: tuple[TeamShare, ...]
