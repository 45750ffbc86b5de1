"""Totals of a simulation: the times of each job, GPU time used and lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import NodeView
from platform_core.simulation.workload import TraceJob, restart_ms


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job that succeeded."""

    job: TraceJob
    ended_ms: int
    held_ms: int  # time on GPUs, resumes included
    attempts: int = 1

    @property
    def completion_ms(self) -> int:
        return self.ended_ms - self.job.submit_ms

    @property
    def queued_ms(self) -> int:
        return self.completion_ms - self.held_ms


class Ledger:
    def __init__(self, nodes: Sequence[NodeView], submits_ms: Sequence[int]) -> None:
        self.outcomes: list[Outcome] = []
        self.rounds = 0
        self.preemptions = 0
        self.resizes = 0
        self.restarts = 0  # attempts that failed and were followed by another
        self.failed: list[str] = []  # jobs that were restarted too often
        self.node_failures = 0
        self.spot_notices = 0
        self.lost_gpu_ms = 0
        self.slots = sum(node.slots for node in nodes)
        self.first_ms, self.last_submit_ms = min(submits_ms, default=0), max(submits_ms, default=0)
        self.busy_gpu_ms = 0  # inside the arrival window
        self.free_gpu_ms = 0
        self.broken_gpu_ms = 0  # free, but on nodes that are partly used
        self._held_before: Counter[str] = Counter()
        self.now_ms = self.first_ms

    def advance(self, to_ms: int, nodes: Iterable[NodeView], busy: int) -> None:
        """Account for time in which the cluster does not change."""
        passed = max(0, min(to_ms, self.last_submit_ms) - self.now_ms)
        if passed:
            self.busy_gpu_ms += busy * passed
            self.free_gpu_ms += (self.slots - busy) * passed
            broken = sum(len(node.free_slots) for node in nodes if len(node.free_slots) < node.slots)
            self.broken_gpu_ms += broken * passed
        self.now_ms = to_ms

    def stopped(self, job: TraceJob, ran_ms: int, unsaved_gpu_ms: int, *, failed: bool) -> None:
        """An attempt ended and the job will resume."""
        self.restarts += failed
        self.lost_gpu_ms += restart_ms(job.gpus) * job.gpus + unsaved_gpu_ms
        self._held_before[job.id] += ran_ms

    def gave_up(self, job: TraceJob, lost_gpu_ms: int) -> None:
        self.failed.append(job.id)
        self.lost_gpu_ms += lost_gpu_ms

    def succeeded(self, job: TraceJob, now_ms: int, ran_ms: int, attempts: int) -> None:
        self.outcomes.append(Outcome(job, now_ms, self._held_before.pop(job.id, 0) + ran_ms, attempts))
