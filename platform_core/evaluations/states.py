"""How far the evaluation of a version by a suite is."""

from __future__ import annotations

from enum import StrEnum

from platform_core.jobs.states import ACTIVE, TERMINAL, JobState


class EvaluationState(StrEnum):
    WAITING = "waiting"  # its job is not submitted, or has not started
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"  # its results are kept


SETTLED = frozenset({EvaluationState.FAILED, EvaluationState.DONE})


def follow(job: JobState) -> EvaluationState | None:
    """The state while the job is in this one; None once it has ended, and its results must be looked at."""
    if job in TERMINAL:
        return None
    return EvaluationState.RUNNING if job in ACTIVE else EvaluationState.WAITING
