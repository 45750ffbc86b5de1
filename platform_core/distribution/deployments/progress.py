"""The progress of a deployment, from the reports of its workers."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.distribution.deployments.deployment import Deployment, WorkerState


@dataclass(frozen=True, slots=True)
class Progress:
    workers: int
    workers_complete: int
    workers_failed: int
    bytes_done: int
    bytes_total: int
    workers_evicted: int = 0  # complete once, given up for room since

    @property
    def percent(self) -> int:
        """Rounded down: 100 only when every byte has arrived."""
        return 100 * self.bytes_done // self.bytes_total if self.bytes_total else 100


def progress(deployment: Deployment) -> Progress:
    """Failed workers count with the bytes they have: they may return for the rest."""
    states = [worker.state for worker in deployment.workers]
    return Progress(
        len(states),
        states.count(WorkerState.COMPLETE),
        states.count(WorkerState.FAILED),
        sum(worker.bytes_done for worker in deployment.workers),
        sum(worker.bytes_total for worker in deployment.workers),
        states.count(WorkerState.EVICTED),
    )


def remaining_ms(bytes_done: int, bytes_total: int, elapsed_ms: int) -> int | None:
    """At the average rate so far; None before the first byte."""
    if bytes_done <= 0:
        return None
    return max(0, bytes_total - bytes_done) * elapsed_ms // bytes_done
