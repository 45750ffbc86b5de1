"""The nine states of a job, and the three kinds of state that other parts ask about."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    PENDING = "pending"
    SCHEDULED = "scheduled"
    INITIALIZING = "initializing"
    RUNNING = "running"
    CHECKPOINTING = "checkpointing"
    PREEMPTED = "preempted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
WAITING = frozenset({JobState.PENDING, JobState.PREEMPTED})
ACTIVE = frozenset(JobState) - TERMINAL - WAITING  # holds slots

DESCRIPTION: dict[JobState, str] = {
    JobState.PENDING: "It waits for the scheduler to find all its slots at once.",
    JobState.SCHEDULED: "Its slots are taken; the nodes have not begun yet.",
    JobState.INITIALIZING: "The nodes fetch and verify its code and data, and start its processes.",
    JobState.RUNNING: "All its ranks run.",
    JobState.CHECKPOINTING: "All its ranks run, and the script is writing a checkpoint.",
    JobState.PREEMPTED: "It gave its slots to more urgent work and waits to resume from its last checkpoint.",
    JobState.SUCCEEDED: "All its ranks ended with exit code 0.",
    JobState.FAILED: "It ended without success: its own error, its time limit, or no restarts left.",
    JobState.CANCELLED: "A person stopped it.",
}
