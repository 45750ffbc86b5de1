"""The five states of a run, and the run's state while its job has one of nine."""

from __future__ import annotations

from enum import StrEnum

from platform_core.jobs.states import ACTIVE, WAITING, JobState


class RunState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})

DESCRIPTION: dict[RunState, str] = {
    RunState.PENDING: "Its job waits for slots, or nothing has reported yet.",
    RunState.RUNNING: "Its job holds slots, or a process outside the platform reports.",
    RunState.SUCCEEDED: "Its job succeeded, or its process said so at its end.",
    RunState.FAILED: "Its job or its process failed, or its process reported nothing for too long.",
    RunState.CANCELLED: "A person stopped it.",
}


def of_job(state: JobState) -> RunState:
    """Returns the state of a job's run: pending while the job waits, running while it holds slots."""
    if state in WAITING:
        return RunState.PENDING
    return RunState.RUNNING if state in ACTIVE else RunState(state.value)
