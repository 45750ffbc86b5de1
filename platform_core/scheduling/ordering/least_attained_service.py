"""Two queues by GPU time already had: newcomers first, in each queue the oldest submission first.

Nothing is known of durations; a job that has had its hour of GPU time is taken for a long one (Tiresias,
NSDI'19). Two queues instead of a continuous scale, so that long jobs do not evict each other in turns.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.ordering.keys import KeyOfJob, OrderKey

FIRST_QUEUE_GPU_MS = 3_600_000


def key_for(snapshot: Snapshot) -> KeyOfJob:
    return _key


def _key(job: PendingJob) -> OrderKey:
    return (float(job.attained_gpu_ms >= FIRST_QUEUE_GPU_MS), job.submitted_ms, job.id)
