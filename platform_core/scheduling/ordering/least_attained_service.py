"""Two queues by GPU time already had: newcomers first, in each queue the oldest submission first.

Nothing is known of durations; a job that has had eight hours of GPU time is taken for a long one (Tiresias,
NSDI'19). Two queues instead of a continuous scale, so that long jobs do not evict each other in turns.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.ordering.keys import KeyOfJob, OrderKey

FIRST_QUEUE_GPU_MS = 8 * 3_600_000


def key_for(snapshot: Snapshot) -> KeyOfJob:
    return _key


def _key(job: PendingJob) -> OrderKey:
    return (float(job.attained_gpu_ms >= FIRST_QUEUE_GPU_MS), job.submitted_ms, job.id)


def next_change_ms(job: RunningJob, now_ms: int) -> int | None:
    """When the job falls into the second queue, if it has not yet."""
    missing = FIRST_QUEUE_GPU_MS - job.attained_gpu_ms
    falls_ms = job.started_ms + -(-missing // job.held)
    return falls_ms if missing > 0 and falls_ms > now_ms else None
