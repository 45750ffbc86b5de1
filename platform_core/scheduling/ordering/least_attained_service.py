"""Two queues by attained GPU time: newcomers first, and in each queue the oldest submission first.

Durations are unknown; a job that has attained more than a threshold counts as long (Tiresias, NSDI'19). Two queues
instead of a continuous scale keep long jobs from evicting each other in turn.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.ordering.keys import Keys, Ordering, OrderKey

PUBLISHED_GPU_MS = 3_250_000  # the first queue in the simulator that Tiresias was published with


def two_queues(first_gpu_ms: int) -> Ordering:
    """`first_gpu_ms`: the attained GPU time at which a job leaves the first queue."""

    def keys(snapshot: Snapshot) -> Keys:
        now_ms = snapshot.now_ms

        def waiting(job: PendingJob) -> OrderKey:
            return (float(job.attained_gpu_ms >= first_gpu_ms), job.submitted_ms, job.id)

        def running(job: RunningJob) -> OrderKey:
            had_gpu_ms = job.attained_gpu_ms + max(0, now_ms - job.started_ms) * job.held
            return (float(had_gpu_ms >= first_gpu_ms), job.submitted_ms, job.id)

        return Keys(waiting, running)

    def next_change_ms(job: RunningJob, now_ms: int) -> int | None:
        """When the job falls into the second queue, if it has not yet."""
        missing = first_gpu_ms - job.attained_gpu_ms
        falls_ms = job.started_ms + -(-missing // job.held)
        return falls_ms if missing > 0 and falls_ms > now_ms else None

    return Ordering(keys, next_change_ms)
