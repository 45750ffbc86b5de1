"""Oldest submission first, whatever its team and priority."""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.ordering.keys import Keys, OrderKey


def keys(snapshot: Snapshot) -> Keys:
    return Keys(_key, _key)


def _key(job: PendingJob | RunningJob) -> OrderKey:
    return (0.0, job.submitted_ms, job.id)
