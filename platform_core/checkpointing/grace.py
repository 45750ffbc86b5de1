"""How long the script of a stopped job may save."""

from __future__ import annotations

from platform_core.jobs.job import Stop

SAVE_GRACE_MS = 60_000  # a preempted job, or one over its time limit
MOST_GRACE_MS = 15 * 60_000  # however long saves take: somebody waits for its slots
SAVE_MARGIN = 1.5  # times the measured save: the step under way ends first
# Peers of a dead rank hang in a collective and cannot save.
GRACE_MS = {
    Stop.CANCEL: 30_000, Stop.PREEMPT: SAVE_GRACE_MS, Stop.RESTART: 10_000, Stop.RESTORE: 10_000,
    Stop.TIME_LIMIT: SAVE_GRACE_MS,
}  # fmt: skip
_SAVES = (Stop.PREEMPT, Stop.TIME_LIMIT)


def grace_ms(
    stop: Stop, measured_save_ms: int | None = None, notice_ms: int | None = None, usual_ms: int | None = None
) -> int:
    """The whole notice where it comes from a cloud; otherwise the usual grace of this stop, and where the script may
    save, at least what its saves take. `usual_ms` takes the place of the usual grace."""
    if notice_ms is not None:
        return max(0, notice_ms)
    usual = GRACE_MS[stop] if usual_ms is None else usual_ms
    if measured_save_ms is None or not (stop in _SAVES or usual_ms is not None):
        return usual
    return max(usual, min(MOST_GRACE_MS, round(SAVE_MARGIN * measured_save_ms)))
