"""Oldest submission first, whoever asks and however urgent."""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.ordering.keys import KeyOfJob, OrderKey


def key_for(snapshot: Snapshot) -> KeyOfJob:
    return _key


def _key(job: PendingJob) -> OrderKey:
    return (0.0, job.submitted_ms, job.id)
