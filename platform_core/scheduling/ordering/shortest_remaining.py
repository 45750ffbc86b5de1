"""The job with the least left to run goes first, by its estimate or its limit.

With true durations and eviction this is the oracle SRTF, without eviction SJF; with users' limits it is as
good as they are.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.ordering.keys import KeyOfJob, OrderKey


def key_for(snapshot: Snapshot) -> KeyOfJob:
    return _key


def _key(job: PendingJob) -> OrderKey:
    return (float(remaining_ms(job)), job.submitted_ms, job.id)
