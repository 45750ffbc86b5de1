"""Reads of forecasts and rounds, for pages."""

from collections.abc import Sequence

from platform_core.scheduling.calibration import Calibration, Start, calibration
from platform_core.units import format_duration_ms
from webapp.scheduling.models import Prediction, Round

JUDGED = 200  # the newest starts
_PRECISE_MS = 60_000  # a shorter interval is told as one moment


def starts(job_ids: Sequence[str], now_ms: int) -> dict[str, str]:
    """Waiting job → when it should start, in words; those of which nothing is known are left out."""
    rows = Prediction.objects.filter(job_id__in=job_ids, started_ms=None)
    return {row.job_id: _in_words(row, now_ms) for row in rows}


def _in_words(told: Prediction, now_ms: int) -> str:
    """ "in 4 min to 20 min"."""
    early, late = max(0, told.newest_early_ms - now_ms), told.newest_late_ms
    if late is None:
        return f"in {format_duration_ms(early)} at the earliest" if early else "not before long"
    until = max(early, late - now_ms)
    if until < 1_000:
        return "in the next round"
    if until - early < _PRECISE_MS:
        return f"in about {format_duration_ms(until)}"
    from_then = f"in {format_duration_ms(early)} to" if early else "within"
    return f"{from_then} {format_duration_ms(until)}"


def judged() -> Calibration:
    """How the newest starts came, against what was told when their jobs were first seen."""
    rows = Prediction.objects.exclude(started_ms=None).order_by("-started_ms")[:JUDGED]
    return calibration([Start(row.early_ms, row.late_ms, row.started_ms or 0) for row in rows])


def newest_rounds(limit: int) -> list[Round]:
    return list(Round.objects.order_by("-id").defer("known", "decided")[:limit])
