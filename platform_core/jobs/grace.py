"""How long the script of a stopped job may save, by the kind of its stop."""

from __future__ import annotations

from platform_core.jobs.job import Stop

SAVE_GRACE_MS = 60_000  # a preempted job, or one over its time limit, may save
MOST_GRACE_MS = (
    15 * 60_000
)  # however long saves take and however early a notice comes: another waits for the slots
SAVE_MARGIN = 1.5  # times the measured save: the step under way ends first
# Peers of a dead rank hang in a collective and cannot save.
GRACE_MS = {
    Stop.CANCEL: 30_000, Stop.PREEMPT: SAVE_GRACE_MS, Stop.RESTART: 10_000, Stop.RESTORE: 10_000,
    Stop.TIME_LIMIT: SAVE_GRACE_MS,
}  # fmt: skip


def saving(save_ms: int | None, usual_ms: int = SAVE_GRACE_MS) -> int:
    """Where the platform has the choice: the usual time, and at least what the saves of this job take."""
    return max(usual_ms, min(MOST_GRACE_MS, round(SAVE_MARGIN * (save_ms or 0))))


def preempted(left_ms: int | None, save_ms: int | None, usual_ms: int = SAVE_GRACE_MS) -> int:
    """`left_ms`: of the notice of a cloud; None where the platform itself stops the job."""
    return saving(save_ms, usual_ms) if left_ms is None else notice(left_ms, save_ms, usual_ms)


def notice(left_ms: int, save_ms: int | None, usual_ms: int = SAVE_GRACE_MS) -> int:
    """Where a cloud takes the node away: all that is left of its notice, which may come a day ahead."""
    return max(0, min(left_ms, max(MOST_GRACE_MS, saving(save_ms, usual_ms))))
