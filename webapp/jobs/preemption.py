"""Preemption: the one way in which the platform stops a running job, so that every stop has a receipt."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.jobs.ends import EndReason
from platform_core.jobs.events import PreemptRequested
from platform_core.jobs.job import Stop
from platform_core.jobs.states import ACTIVE, JobState
from platform_core.scheduling.decisions import StopKind
from webapp.base.lease import Fence
from webapp.jobs import transitions
from webapp.jobs.models import Job
from webapp.jobs.signals import preempted
from webapp.nodes import queries as clusters

_ENDS = {StopKind.SPOT_NOTICE: EndReason.SPOT_NOTICE, StopKind.MAINTENANCE: EndReason.MAINTENANCE}


@dataclass(frozen=True, slots=True)
class Preemption:
    """Why, with a sentence for the timeline, and for whom: the job that gets the slots, or who takes the node."""

    kind: StopKind
    cause: str
    for_job: str = ""
    for_team: str = ""
    node: str = ""  # its hostname
    by: str = ""  # the actor who takes it
    of_slots: bool = False  # hardware fails below its slots, not that of the whole node

    @property
    def end(self) -> EndReason:
        if self.kind is StopKind.DEVICE_FAULT and self.of_slots:
            return EndReason.GPU_FAILED
        return _ENDS.get(self.kind, EndReason.PREEMPTED)


@transaction.atomic
def preempt(
    job_id: str, preemption: Preemption, at_ms: int, *, resize_to: int = 0, leaves_ms: int | None = None
) -> bool:
    """Preempts a job: it may save first and is queued again. Returns False if it holds no slots or is stopping.

    With `resize_to` it restarts with so many slots as soon as it has stopped. `leaves_ms` is when one of its nodes
    leaves: it may save until then.
    """
    batch = transitions.Batch([job_id])
    job = batch.jobs.get(job_id)
    if job is None or JobState(job.row.state) not in ACTIVE or job.row.stop != Stop.NONE:
        return False
    # While it still counts as going on, so that a receiver can tell what it loses.
    preempted.send(Job, job=job.row, preemption=preemption, at_ms=at_ms)
    event = PreemptRequested(
        at_ms=at_ms, actor="scheduler", cause=preemption.cause, attempt=job.row.attempt, leaves_ms=leaves_ms,
        end=preemption.end,
    )  # fmt: skip
    Job.objects.filter(id=job_id).update(resize_to=resize_to)
    batch.advance(job_id, event)
    batch.write()
    return True


def vacate(
    node_id: str,
    kind: StopKind,
    cause: str,
    at_ms: int,
    *,
    by: str = "system",
    leaves_ms: int | None = None,
    slots: Collection[int] | None = None,
    fence: Fence = transaction.atomic,
) -> int:
    """Moves jobs away from this node: the preemptible ones, or all of them if the node leaves at `leaves_ms`.

    With `slots` all jobs on these slots, or on any if there are none: the hardware fails below them.

    Returns how many were asked to stop.
    """
    asked = 0
    preemption = Preemption(kind, cause, node=clusters.hostname(node_id), by=by, of_slots=bool(slots))
    for job in Job.objects.filter(id__in=transitions.jobs_on(node_id, slots), stop=Stop.NONE).order_by("id"):
        if slots is not None or leaves_ms is not None or job.spec["preemptible"]:
            with fence():
                asked += preempt(job.id, preemption, at_ms, leaves_ms=leaves_ms)
    return asked


def node_leaves(sender: Any, node_id: str, cause: str, by: str, at_ms: int, leaves_ms: int, **_: Any) -> None:
    """The machine leaves: the jobs on it save what they can."""
    vacate(node_id, StopKind.SPOT_NOTICE, cause, at_ms, by=by, leaves_ms=leaves_ms)
