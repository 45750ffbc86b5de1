"""The shape of an ordering policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot

OrderKey = tuple[float, int, str]  # rank, then the earlier submission, then the id
KeyOfJob = Callable[[PendingJob], OrderKey]
KeyOfHeld = Callable[[RunningJob], OrderKey]
BY_KEY = itemgetter(0)  # for sorting pairs of a key and a job


class Keys(NamedTuple):
    """Sort keys, the smallest first. Keys of waiting and running jobs compare with each other."""

    waiting: KeyOfJob
    running: KeyOfHeld


@dataclass(frozen=True, slots=True)
class Ordering:
    """`next_change_ms`: when the key of a running job next changes by the passage of time, for policies where it does.

    `only_more_urgent`: a job is stopped only for one of a more urgent priority, whatever their keys. An order in which
    waiting moves jobs forward needs this: otherwise jobs of equal priority would stop each other in turn.
    """

    keys: Callable[[Snapshot], Keys]
    next_change_ms: Callable[[RunningJob, int], int | None] | None = None
    only_more_urgent: bool = False


def as_if_it_waited(key: KeyOfJob, now_ms: int) -> KeyOfHeld:
    """A running job ranks where it would in the queue if it were stopped now."""
    return lambda job: key(as_if_waiting(job, now_ms))


def as_if_waiting(job: RunningJob, now_ms: int) -> PendingJob:
    return PendingJob(
        id=job.id,
        team=job.team,
        user="",
        num_gpus=job.held,
        min_gpus=job.min_gpus,
        gpu_type=job.gpu_type,
        priority=job.priority,
        submitted_ms=job.submitted_ms,
        excluded_nodes=(),
        preemptible=job.preemptible,
        max_runtime_ms=job.max_runtime_ms,
        waiting_since_ms=now_ms,
        cpus_per_gpu=0,
        memory_per_gpu_bytes=0,
        attained_gpu_ms=job.attained_gpu_ms + max(0, now_ms - job.started_ms) * job.held,
        expected_runtime_ms=None if job.expected_end_ms is None else max(0, job.expected_end_ms - now_ms),
    )
