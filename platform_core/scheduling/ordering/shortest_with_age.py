"""The least left to run goes first, but half of the time since its submission counts for a job.

A job is overtaken only by jobs submitted at most twice its own expected run time after it: short jobs do not
wait for long ones, and no stream of short jobs keeps a long one waiting for ever.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.ordering.keys import KeyOfJob, OrderKey

AGE_PART = 0.5


def key_for(snapshot: Snapshot) -> KeyOfJob:
    return _key


def _key(job: PendingJob) -> OrderKey:
    # The age itself would give the same order; counting from the submission keeps the key the same all day.
    return (remaining_ms(job) + AGE_PART * job.submitted_ms, job.submitted_ms, job.id)
