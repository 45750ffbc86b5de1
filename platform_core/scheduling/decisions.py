"""The decisions of a round: placements, waits, stops and node reservations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from platform_core.cluster.snapshot import PendingJob, RunningJob

Number = int | float | str


class WaitCode(StrEnum):
    """The one thing that holds a job back now. The first that applies, in this order."""

    RESTARTS_LATER = "restarts_later"
    GPU_TYPE_MISSING = "gpu_type_missing"
    CANNOT_EVER_FIT = "cannot_ever_fit"
    NODES_DRAINING = "nodes_draining"
    QUOTA = "quota"
    BEHIND = "behind"
    MAINTENANCE = "maintenance"
    CONSTRAINT = "constraint"
    BETTER_PLACE = "better_place"
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
    """The job as it runs from now on, with an assumed run time. For simulation; production loads running jobs."""
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
    """Why a job did not start in this round. `numbers` ends with its position among the waiting jobs."""

    job_id: str
    code: WaitCode
    numbers: tuple[tuple[str, Number], ...]
    sentence: str
    place: tuple[str, ...] = ()  # the nodes reserved for it, in order of rank


class StopKind(StrEnum):
    """Every reason for which the platform takes a running job's slots; each stop leaves a receipt.

    A round decides the first five; the others follow from utilisation or from the state of a node.
    """

    EVICTED = "evicted"  # for a job that is entitled to the slots
    MOVED = "moved"  # it is entitled to its slots and resumes elsewhere (a migration)
    RECLAIMED = "reclaimed"  # its team had borrowed the guarantee of another
    SHRUNK = "shrunk"  # it is elastic and resumes with fewer GPUs
    GROWN = "grown"  # it is elastic and resumes with more GPUs, which were idle
    IDLE = "idle"  # it hardly used its slots while another job waited for them
    SPOT_NOTICE = "spot notice"  # the machine is taken away
    DEVICE_FAULT = "device fault"  # its slot or node is out of service
    MAINTENANCE = "maintenance"  # a maintenance window began on its node


class Stop(NamedTuple):
    """The receipt of a running job that must save its work and release its slots."""

    job_id: str
    for_job: str
    kind: StopKind
    lost_gpu_ms: int  # work since its last checkpoint, and the restart
    to_gpus: int = 0  # the GPUs with which a resized job restarts


class NodeReservation(NamedTuple):
    """Nodes reserved for a job until it starts: others migrate away for it, or it migrates there itself."""

    job_id: str
    nodes: tuple[str, ...]
    until_ms: int | None = None  # bounded for a migrating job, whose place stays empty meanwhile


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
