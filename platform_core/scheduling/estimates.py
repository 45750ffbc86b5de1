"""Remaining run times, and what stopping a job costs."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.restarts import RESUME_MS

FOREVER_MS = 10 * 365 * 86_400_000  # a job without limit or estimate; an integer, so that sums stay exact
RELEASE_MS = 1  # until a stopping job has released its slots: soon, but not now
_OVERRUN_PARTS = 10


def remaining_ms(job: PendingJob) -> int:
    """The estimate if there is one, else the time limit."""
    if job.expected_runtime_ms is not None:
        return job.expected_runtime_ms
    return job.max_runtime_ms or FOREVER_MS


def with_gpus(job: PendingJob, gpus: int) -> PendingJob:
    """The job with another number of GPUs. An estimate grows as GPUs become fewer; a limit stays."""
    if gpus == job.num_gpus:
        return job
    known = job.expected_runtime_ms
    scaled = None if known is None else -(-known * job.num_gpus // gpus)
    return replace(job, num_gpus=gpus, min_gpus=gpus, expected_runtime_ms=scaled)


def remaining_of_running_ms(job: RunningJob, now_ms: int) -> int:
    return expected_end_ms(job, now_ms) - now_ms


def expected_end_ms(job: RunningJob, now_ms: int) -> int:
    """Never in the past: a job over its estimate is assumed to need another tenth of its run time so far."""
    if job.expected_end_ms is None:
        return now_ms + FOREVER_MS
    if job.expected_end_ms > now_ms:
        return job.expected_end_ms
    return now_ms + max(1, (now_ms - job.started_ms) // _OVERRUN_PARTS)


def lost_by_stopping_ms(job: RunningJob, now_ms: int) -> int:
    """The measured restart time, plus the work since the last checkpoint unless stopping saves it.

    The wait in between does not count: it holds no slots, and it is the same for every candidate.
    """
    resume_ms = RESUME_MS if job.restart_ms is None else job.restart_ms
    if job.saves_when_stopped:
        return resume_ms
    return resume_ms + max(0, now_ms - (job.last_checkpoint_ms or job.started_ms))
