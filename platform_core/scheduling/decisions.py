"""What a round decides: who starts where, who waits and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from platform_core.cluster.snapshot import PendingJob, RunningJob

Number = int | float | str


class WaitCode(StrEnum):
    """The one thing that holds a job back now. Checked in this order: the first that applies is told."""

    RESTARTS_LATER = "restarts_later"
    GPU_TYPE_MISSING = "gpu_type_missing"
    CANNOT_EVER_FIT = "cannot_ever_fit"
    NODES_DRAINING = "nodes_draining"
    QUOTA = "quota"
    BEHIND = "behind"
    MAINTENANCE = "maintenance"
    CONSTRAINT = "constraint"
    NO_FREE_SLOTS = "no_free_slots"
    FRAGMENTED = "fragmented"


class Seat(NamedTuple):
    """One node of a gang: its rank among the nodes and the slot indices it gets there."""

    node: str
    rank: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A whole gang: the seats hold all of its slots, equally many on each node."""

    job_id: str
    members: tuple[Seat, ...]
    reason: str


def started(job: PendingJob, placement: Placement, now_ms: int, runtime_ms: int) -> RunningJob:
    """The job as it runs from now on, taken to need so long. For whoever plays the future; reality is loaded."""
    return RunningJob(
        id=job.id,
        team=job.team,
        gpu_type=job.gpu_type,
        priority=job.priority,
        placement=tuple((seat.node, seat.slots) for seat in placement.members),
        started_ms=now_ms,
        expected_end_ms=now_ms + runtime_ms,
        last_checkpoint_ms=None,
        preemptible=job.preemptible,
        num_gpus=job.num_gpus,
        min_gpus=job.min_gpus,
        submitted_ms=job.submitted_ms,
        attained_gpu_ms=job.attained_gpu_ms,
        max_runtime_ms=job.max_runtime_ms,
        asks=replace(job, resize_to=0, resize_on=(), reserved_nodes=(), reserved_until_ms=None),
    )


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job did not start in this round. `numbers` ends with its position among those that wait."""

    job_id: str
    code: WaitCode
    numbers: tuple[tuple[str, Number], ...]
    sentence: str
    place: tuple[str, ...] = ()  # the nodes that are kept for it, the first rank's first


class StopKind(StrEnum):
    """Why the platform takes a running job's slots: every reason there is, and each leaves a receipt.

    A round decides the first five; the others come of what was measured, or of what becomes of a node.
    """

    EVICTED = "evicted"  # it comes after the job that gets the room
    MOVED = "moved"  # it deserves its slots and finds them elsewhere in the next round
    RECLAIMED = "reclaimed"  # its team had borrowed what another is guaranteed
    SHRUNK = "shrunk"  # it is elastic and goes on with fewer
    GROWN = "grown"  # it is elastic and goes on with more, which were idle
    IDLE = "idle"  # it did next to nothing with its slots, and another waits for them
    SPOT_NOTICE = "spot notice"  # the machine is taken away
    MAINTENANCE = "maintenance"  # the node was booked for it


class Stop(NamedTuple):
    """The receipt of a job that has to save its work and give up its slots."""

    job_id: str
    for_job: str
    kind: StopKind
    lost_gpu_ms: int  # work since its last checkpoint, and the resume
    to_gpus: int = 0  # with how many it starts again, where it is resized


class NodeReservation(NamedTuple):
    """A job's own nodes until it starts or fits there no more: others move away for it, or it moves there itself."""

    job_id: str
    nodes: tuple[str, ...]
    until_ms: int | None = None  # of one that moves: it is bounded, since the place stays empty meanwhile


@dataclass(frozen=True, slots=True)
class Plan:
    """Each pending job is in exactly one of `placements` and `waits`; both follow `order`."""

    placements: tuple[Placement, ...]
    waits: tuple[Wait, ...]
    order: tuple[str, ...]
    stops: tuple[Stop, ...] = ()
    node_reservations: tuple[NodeReservation, ...] = ()

    @property
    def preemptions(self) -> tuple[str, ...]:
        """Ids of the running jobs to stop."""
        return tuple(stop.job_id for stop in self.stops)
