"""Reads of forecasts and rounds, for pages."""

from collections.abc import Sequence

from platform_core.scheduling.calibration import Calibration, Start, calibration
from platform_core.units import HOUR_MS, MINUTE_MS, format_duration_ms
from webapp.scheduling.models import Prediction, Receipt, Round

JUDGED = 200  # the newest starts
_GRAINS = (  # from so long on, so exact
    (48 * HOUR_MS, 6 * HOUR_MS), (4 * HOUR_MS, HOUR_MS), (HOUR_MS, 10 * MINUTE_MS), (2 * MINUTE_MS, MINUTE_MS),
    (0, 5_000),
)  # fmt: skip
_PRECISE_MS = 60_000  # a shorter interval is told as one moment


def starts(job_ids: Sequence[str], now_ms: int) -> dict[str, str]:
    """Waiting job → when it should start, in words; those of which nothing is known are left out."""
    rows = Prediction.objects.filter(job_id__in=job_ids, started_ms=None)
    return {row.job_id: _in_words(row, now_ms) for row in rows}


def _in_words(told: Prediction, now_ms: int) -> str:
    """ "in 4 min to 20 min"."""
    early, late = max(0, told.newest_early_ms - now_ms), told.newest_late_ms
    if late is None:
        return f"in {_about(early)} at the earliest" if early else "not before long"
    until = max(early, late - now_ms)
    if until < 1_000:
        return "in the next round"
    if until - early < _PRECISE_MS:
        return f"in about {_about(until)}"
    from_then = f"in {_about(early)} to" if early else "within"
    return f"{from_then} {_about(until)}"


def _about(ms: int) -> str:
    """As exact as a forecast can be: "17 min", not "17 min 19 s"."""
    grain = next(grain for over, grain in _GRAINS if ms >= over)
    return format_duration_ms(max(grain, round(ms / grain) * grain))


def judged() -> Calibration:
    """How the newest starts came, against what was told when their jobs were first seen."""
    rows = Prediction.objects.exclude(started_ms=None).order_by("-started_ms")[:JUDGED]
    return calibration([Start(row.early_ms, row.late_ms, row.started_ms or 0) for row in rows])


def newest_rounds(limit: int) -> list[Round]:
    return list(Round.objects.order_by("-id").defer("known", "decided")[:limit])


def newest_receipts(limit: int) -> list[Receipt]:
    return list(Receipt.objects.order_by("-id")[:limit])
