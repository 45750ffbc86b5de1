"""What happened in a history, counted as it happens: times of each job, GPU time used and lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import NodeView
from platform_core.scheduling.decisions import Stop
from platform_core.simulation.workload import TraceJob, restart_ms


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished job."""

    job: TraceJob
    ended_ms: int
    held_ms: int  # time on GPUs, resumes included

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
        self.lost_gpu_ms = 0
        self.slots = sum(node.slots for node in nodes)
        self.first_ms, self.last_submit_ms = min(submits_ms, default=0), max(submits_ms, default=0)
        self.busy_gpu_ms = 0  # inside the arrival window
        self.free_gpu_ms = 0
        self.broken_gpu_ms = 0  # free, but on nodes that are partly used
        self._held_before: Counter[str] = Counter()
        self._now_ms = self.first_ms

    def advance(self, to_ms: int, nodes: Iterable[NodeView], busy: int) -> None:
        """Time passes while the cluster stays as it is."""
        passed = max(0, min(to_ms, self.last_submit_ms) - self._now_ms)
        if passed:
            self.busy_gpu_ms += busy * passed
            self.free_gpu_ms += (self.slots - busy) * passed
            broken = sum(len(node.free_slots) for node in nodes if len(node.free_slots) < node.slots)
            self.broken_gpu_ms += broken * passed
        self._now_ms = to_ms

    def stopped(self, stop: Stop, job: TraceJob, ran_ms: int) -> None:
        if stop.to_gpus:
            self.resizes += 1
        else:
            self.preemptions += 1
        unsaved_gpu_ms = stop.lost_gpu_ms if stop.for_job == job.id and not stop.to_gpus else 0
        self.lost_gpu_ms += restart_ms(job.gpus) * job.gpus + unsaved_gpu_ms
        self._held_before[job.id] += ran_ms

    def finished(self, job_id: str, job: TraceJob, now_ms: int, started_ms: int) -> None:
        self.outcomes.append(Outcome(job, now_ms, self._held_before[job_id] + now_ms - started_ms))
