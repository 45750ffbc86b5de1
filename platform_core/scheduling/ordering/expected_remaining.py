"""Within a priority: what should end soon goes first, shortest first; the rest in order of submission.

What is left is what the limit still allows. A job without a stated limit is judged by the time it has had, as
in multi-level feedback queues: with heavy tails, what has run long will run long again.

Shortest first alone has the best mean and leaves the long jobs to the end; oldest first has the shortest tail.
So all that is longer than a cut counts as equally long, and the older goes first. The cut grows with the
backlog, so that under overload the short jobs stay a small part of the work and hardly delay the others.
Whoever has waited for as long as it would take to work off all that is known goes before everybody of its
priority: that bounds the wait even where short jobs alone fill the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import expected_end_ms, remaining_ms
from platform_core.scheduling.ordering.keys import KeyOfJob, OrderKey

UNSTATED_LIMIT_MS = 7 * 86_400_000  # what a job gets that says nothing; so it says nothing
PRIORITY_STEP = 1e13  # more than any time left: a more urgent priority always goes first
FIRST_LEVEL_MS = 15 * 60_000
LEVELS_APART = 4
LEAST_CUT_MS = 10 * 3_600_000
CUT_PART = 0.01  # of the backlog
LEAST_PATIENCE_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Patience:
    """What the backlog makes of the time a job has left."""

    cut_ms: float
    longest_wait_ms: float

    @classmethod
    def of(cls, snapshot: Snapshot) -> Patience:
        backlog = backlog_ms(snapshot)
        return cls(max(LEAST_CUT_MS, CUT_PART * backlog), max(LEAST_PATIENCE_MS, backlog))

    def counted_ms(self, left_ms: float, waited_ms: int) -> float:
        return 0.0 if waited_ms > self.longest_wait_ms else min(left_ms, self.cut_ms)


def key_for(snapshot: Snapshot) -> KeyOfJob:
    patience, now_ms = Patience.of(snapshot), snapshot.now_ms

    def key(job: PendingJob) -> OrderKey:
        waited_ms = now_ms - job.submitted_ms - job.attained_gpu_ms // job.num_gpus
        counted_ms = patience.counted_ms(expected_ms(job), waited_ms)
        return (job.priority * PRIORITY_STEP + counted_ms, job.submitted_ms, job.id)

    return key


def expected_ms(job: PendingJob) -> float:
    if job.max_runtime_ms in (0, UNSTATED_LIMIT_MS):
        return _level_ms(job.attained_gpu_ms // job.num_gpus)
    return float(remaining_ms(job))


def expected_of_running_ms(job: RunningJob, now_ms: int, held: int) -> float:
    if job.max_runtime_ms in (0, UNSTATED_LIMIT_MS):
        return _level_ms(job.attained_gpu_ms // held + now_ms - job.started_ms)
    return float(expected_end_ms(job, now_ms) - now_ms)


def backlog_ms(snapshot: Snapshot) -> float:
    """How long the cluster would work on all that is waiting and running if it all ran to its limits."""
    now_ms = snapshot.now_ms
    slots = sum([node.slots for node in snapshot.nodes if node.takes_work])
    work = sum([remaining_ms(job) * job.num_gpus for job in snapshot.pending])
    work += sum([(expected_end_ms(job, now_ms) - now_ms) * job.num_gpus for job in snapshot.running])
    return work / slots if slots else 0.0


def _level_ms(had_ms: int) -> float:
    level = FIRST_LEVEL_MS
    while level <= had_ms:
        level *= LEVELS_APART
    return float(level)
