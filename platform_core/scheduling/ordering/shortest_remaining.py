"""The job with the least left to run goes first, by its estimate or its limit.

With true durations and eviction this is the oracle SRTF, without eviction SJF; with users' limits it is as
good as they are.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import FOREVER_MS, remaining_ms
from platform_core.scheduling.ordering.keys import Keys, OrderKey


def keys(snapshot: Snapshot) -> Keys:
    now_ms = snapshot.now_ms

    def running(job: RunningJob) -> OrderKey:
        if job.expected_end_ms is None:
            left_ms = job.max_runtime_ms or FOREVER_MS
        else:
            left_ms = max(0, job.expected_end_ms - now_ms)
        return (float(left_ms), job.submitted_ms, job.id)

    return Keys(_waiting, running)


def _waiting(job: PendingJob) -> OrderKey:
    return (float(remaining_ms(job)), job.submitted_ms, job.id)
