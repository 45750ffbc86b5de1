"""Within a priority: the smallest first, and a size counts half for each half-life that a job has waited.

The size is the time left times the square root of the GPUs: time alone lets a gang of 64 go before 64 single jobs,
GPU time alone lets every one of them go before the gang. Smallest first has nearly the best mean; the halving
bounds the wait. The half-life is a part of the backlog, so it does not matter how fast the cluster is.
Among jobs of more than a day that are large beside the backlog size hardly counts and the older goes first: one of
them would wait for all the others, and users' limits say too little about them to be worth that. The few whose work
alone would take the whole cluster a noticeable part of the backlog are huge: if one goes first, all the many wait for
it, and if they go first, only it waits. So it counts as if it had come later, by a part of the backlog.

The bound: a job is overtaken only by jobs submitted within as many half-lives after it as its size is halvings away
from the least size, and 0.3 of the backlog more if it is huge. That is within two backlogs for 1,024 GPUs and a limit
of ten days.

What a team has used beyond its share makes its jobs count as larger, less and less with the wait of the job.

What is left is what the limit still allows: it is of one attempt, and what the job has had in earlier ones is taken to
be done. A job without a stated limit is judged by the time it has had, in
levels: with the heavy tails of real clusters, what has run long will run long again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, sqrt

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import expected_end_ms, lost_by_stopping_ms, remaining_ms
from platform_core.scheduling.ordering import overuse
from platform_core.scheduling.ordering.keys import Keys, OrderKey

# The constants from here to HELD_PART were tuned: half-life, power, levels and HELD_PART by several hundred replays of
# Muri traces 1, 3 and 4, the large and the huge part by about forty replays of the nine cases of
# benchmarks/results/scheduler_table.md, which names what was held out.
HALF_LIFE_PART = 0.09  # the half-life of a size, as part of the backlog
LEAST_LARGE_MS = 86_400_000  # no smaller size is large
LARGE_PART = (
    0.06  # of the backlog: a larger size is large; work that occupies the whole cluster that long is huge
)
LARGE_POWER = 0.05  # beyond LARGE_PART, size counts with this power
HUGE_LATER_PART = 0.3  # of the backlog: a huge job counts as submitted that much later
LEVELS_APART = 6  # factor between the levels of jobs without a limit
TIMES_THE_LEVEL = 4  # expected time left of a job without a limit, in levels
HELD_PART = 0.6  # of its size counts for a running job, so that only a much smaller job stops it
# These are limits and conventions, not tuned.
LEAST_HALF_LIFE_MS = 1_000
LEAST_SIZE_MS = 60_000  # all smaller jobs count as equally small
PRIORITY_STEP = 1e9  # exceeds any size and wait: a more urgent priority always goes first
UNSTATED = 0  # no limit: a state, and no number of hours that a person could write
FIRST_LEVEL_MS = 30 * 60_000
LEAST_LEFT_PARTS = 10  # at least a tenth of the limit is expected to be left
LEAST_RUN_MS = 10 * 60_000  # before that, only a more urgent priority stops a job
OVERUSE_HALVINGS = 1.0  # for each share that its team has used beyond its own, the size doubles


@dataclass(frozen=True, slots=True)
class Scale:
    """How sizes and waits count, given the backlog of the snapshot."""

    now_ms: int
    half_life_ms: float
    large_ms: float
    huge_gpu_ms: float
    huge_later_ms: float

    @classmethod
    def of(cls, snapshot: Snapshot) -> Scale:
        backlog, slots = backlog_ms(snapshot), slots_at_work(snapshot)
        return cls(
            now_ms=snapshot.now_ms,
            half_life_ms=max(LEAST_HALF_LIFE_MS, HALF_LIFE_PART * backlog),
            large_ms=max(LEAST_LARGE_MS, LARGE_PART * backlog),
            huge_gpu_ms=LARGE_PART * backlog * slots,
            huge_later_ms=HUGE_LATER_PART * backlog,
        )

    def counted_ms(self, size_ms: float) -> float:
        """The size; beyond `large_ms` it grows only with a small power."""
        if size_ms <= self.large_ms:
            return size_ms
        return self.large_ms * float((size_ms / self.large_ms) ** LARGE_POWER)

    def rank(self, priority: int, left_ms: float, gpus: int, waited_ms: float, counts: float = 1.0) -> float:
        """`counts`: the factor on the size. The smallest rank goes first."""
        size_ms = self.counted_ms(left_ms * sqrt(gpus)) * counts
        if left_ms * gpus > self.huge_gpu_ms:
            waited_ms -= self.huge_later_ms
        return priority * PRIORITY_STEP + log2(size_ms + LEAST_SIZE_MS) - waited_ms / self.half_life_ms


def keys(snapshot: Snapshot) -> Keys:
    scale = Scale.of(snapshot)
    now_ms = scale.now_ms
    over = overuse.of_teams(snapshot)

    def held_against(job: PendingJob | RunningJob, waited_ms: int) -> float:
        """The penalty for the overuse of its team, in doublings of the size."""
        shares = over.get((job.team, job.gpu_type), 0.0)
        return shares * OVERUSE_HALVINGS * overuse.counts(waited_ms) if shares else 0.0

    def waiting(job: PendingJob) -> OrderKey:
        gpus = job.num_gpus
        waited_ms = now_ms - job.submitted_ms - job.attained_gpu_ms // gpus
        rank = scale.rank(job.priority, expected_ms(job), gpus, waited_ms)
        return (rank + held_against(job, waited_ms), job.submitted_ms, job.id)

    def running(job: RunningJob) -> OrderKey:
        """Smaller than if the job waited, so that few jobs are stopped."""
        gpus, worth_ms = job.held, 0
        if now_ms - job.started_ms >= LEAST_RUN_MS:
            worth_ms = max(0, expected_of_running_ms(job, now_ms) - lost_by_stopping_ms(job, now_ms))
        waited_ms = job.started_ms - job.submitted_ms - job.attained_gpu_ms // gpus
        rank = scale.rank(job.priority, worth_ms, gpus, waited_ms, counts=HELD_PART)
        return (rank + held_against(job, waited_ms), job.submitted_ms, job.id)

    return Keys(waiting, running)


def next_change_ms(job: RunningJob, now_ms: int) -> int | None:
    """When a running job completes its least run, or else when it falls to the next level."""
    settled_ms = job.started_ms + LEAST_RUN_MS
    if settled_ms > now_ms:
        return settled_ms
    if job.max_runtime_ms != UNSTATED:
        return None
    had_ms = job.attained_gpu_ms // job.held + now_ms - job.started_ms
    return now_ms + _level_ms(had_ms) - had_ms


def expected_ms(job: PendingJob) -> int:
    had_ms = job.attained_gpu_ms // job.num_gpus
    if job.max_runtime_ms == UNSTATED:
        return TIMES_THE_LEVEL * _level_ms(had_ms)
    return remaining_ms(job) if job.expected_runtime_ms is not None else _left_ms(remaining_ms(job), had_ms)


def expected_of_running_ms(job: RunningJob, now_ms: int) -> int:
    before_ms = job.attained_gpu_ms // job.held
    if job.max_runtime_ms == UNSTATED:
        return TIMES_THE_LEVEL * _level_ms(before_ms + now_ms - job.started_ms)
    return _left_ms(expected_end_ms(job, now_ms) - now_ms, before_ms)


def _left_ms(allowed_ms: int, had_ms: int) -> int:
    """The rest of an attempt's limit; never 0, as unsaved work is repeated."""
    return max(allowed_ms - had_ms, allowed_ms // LEAST_LEFT_PARTS)


def backlog_ms(snapshot: Snapshot) -> float:
    """How long the cluster would need for all waiting and running jobs, by their expected times."""
    now_ms, slots = snapshot.now_ms, slots_at_work(snapshot)
    work = sum([expected_ms(job) * job.num_gpus for job in snapshot.pending])
    work += sum([expected_of_running_ms(job, now_ms) * job.held for job in snapshot.running])
    return work / slots if slots else 0.0


def slots_at_work(snapshot: Snapshot) -> int:
    return sum([node.slots for node in snapshot.nodes if node.takes_work])


def _level_ms(had_ms: int) -> int:
    level = FIRST_LEVEL_MS
    while level <= had_ms:
        level *= LEVELS_APART
    return level
