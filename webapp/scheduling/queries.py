"""Reads of forecasts and rounds, for pages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, Sum

from platform_core.scheduling.forecast.calibration import TOLERANCE_MS, Start
from platform_core.scheduling.wording import NAMES_SHOWN, listed
from platform_core.units import HOUR_MS, MINUTE_MS, format_duration_ms
from webapp.nodes import queries as clusters
from webapp.scheduling.models import Prediction, Receipt, Round

JUDGED = 200  # the newest starts
_GRAINS = (  # (from this duration, rounded to this)
    (48 * HOUR_MS, 6 * HOUR_MS), (4 * HOUR_MS, HOUR_MS), (HOUR_MS, 10 * MINUTE_MS), (2 * MINUTE_MS, MINUTE_MS),
    (0, 5_000),
)  # fmt: skip
_PRECISE_MS = 60_000  # a shorter interval is shown as one moment


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    early_ms: int
    late_ms: int | None  # None: only the earliest is known

    def in_words(self, now_ms: int) -> str:
        return in_words(self.early_ms, self.late_ms, now_ms)


def forecasts(job_ids: Sequence[str]) -> dict[str, ExpectedStart]:
    """The newest forecast of each waiting job that has one."""
    waits = Q(started_ms=None) | Q(newest_early_ms__gt=F("started_ms"))  # the latter: it waits again
    return {
        row.job_id: ExpectedStart(row.newest_early_ms, row.newest_late_ms)
        for row in Prediction.objects.filter(waits, job_id__in=job_ids)
        if row.newest_early_ms is not None
    }


def starts(job_ids: Sequence[str], now_ms: int) -> dict[str, str]:
    """Waiting job → when it should start, in words; jobs without a forecast are left out."""
    return {job_id: forecast.in_words(now_ms) for job_id, forecast in forecasts(job_ids).items()}


def expected_start(forecast: ExpectedStart | None, wait_numbers: Mapping[str, Any]) -> ExpectedStart | None:
    """The forecast; before there is one, the time for which the scheduler reserves nodes."""
    reserved_ms = wait_numbers.get("reserved_start_ms")
    return forecast or (None if reserved_ms is None else ExpectedStart(reserved_ms, reserved_ms))


def start_in_words(job: Any, forecast: ExpectedStart | None, now_ms: int) -> str:
    """When a waiting job should start; "" when nothing is known."""
    expected = expected_start(forecast, job.wait_numbers)
    return expected.in_words(now_ms) if expected else ""


def kept_places(places: Iterable[Sequence[str]]) -> Callable[[Sequence[str]], str]:
    """Returns a function that names the nodes of a place: "node-1, node-2, node-3 and 12 more", or ""."""
    # Only the names that are shown, not those that are only counted.
    shown = {node for place in places for node in place[:NAMES_SHOWN]}
    known = clusters.hostnames(shown) if shown else {}
    return lambda place: listed([known.get(node, node) for node in place])


def in_words(early_ms: int, late_ms: int | None, now_ms: int) -> str:
    """ "in 4 min to 20 min"."""
    early = max(0, early_ms - now_ms)
    if late_ms is None:
        return f"in {_about(early)} at the earliest" if early else "in the next round at the earliest"
    until = max(early, late_ms - now_ms)
    if until < 1_000:
        return "in the next round"
    if until - early < _PRECISE_MS or _about(early) == _about(until):
        return f"in about {_about(until)}"
    from_then = f"in {_about(early)} to" if early else "within"
    return f"{from_then} {_about(until)}"


def _about(ms: int) -> str:
    """As exact as a forecast can be: "17 min", not "17 min 19 s"."""
    grain = next(grain for over, grain in _GRAINS if ms >= over)
    return format_duration_ms(max(grain, round(ms / grain) * grain))


def judged() -> dict[str, Start]:
    """Job → its start and its first forecast, for the newest starts, newest first."""
    rows = Prediction.objects.exclude(started_ms=None).order_by("-started_ms", "job_id")[:JUDGED]
    return {row.job_id: Start(row.made_ms, row.early_ms, row.late_ms, row.started_ms or 0) for row in rows}


def overdue(waiting: Any, now_ms: int) -> int:
    """How many of these jobs are past their latest forecast start and have not started."""
    late = Prediction.objects.filter(started_ms=None, late_ms__lt=now_ms - TOLERANCE_MS)
    return late.filter(job_id__in=waiting.order_by().values("id")).count()


def newest_rounds(limit: int) -> list[Round]:
    return list(Round.objects.order_by("-id").defer("known", "decided")[:limit])


@dataclass(frozen=True, slots=True)
class Losses:
    """GPU time that a team lost because its jobs were stopped, and that others lost for its jobs."""

    lost_gpu_ms: int
    caused_gpu_ms: int


def losses(from_ms: int, to_ms: int) -> dict[tuple[str, str], Losses]:
    """Losses by team and GPU type; teams without any are left out."""
    rows = Receipt.objects.filter(at_ms__gte=from_ms, at_ms__lt=to_ms).order_by()
    lost, caused = (
        {
            (team, gpu_type): gpu_ms
            for team, gpu_type, gpu_ms in rows.values_list(whose, "gpu_type").annotate(
                gpu_ms=Sum("lost_gpu_ms")
            )
        }
        for whose in ("team", "for_team")
    )
    # Whoever takes a node is no team.
    return {key: Losses(lost.get(key, 0), caused.get(key, 0)) for key in {*lost, *caused} if key[0]}


def receipts_of_team(team: str, from_ms: int, limit: int) -> list[Receipt]:
    """Of its jobs that were stopped, and of those that were stopped for its jobs; the newest first."""
    concerned = Receipt.objects.filter(Q(team=team) | Q(for_team=team), at_ms__gte=from_ms)
    return list(concerned.order_by("-id")[:limit])


def newest_receipts(limit: int) -> list[Receipt]:
    return list(Receipt.objects.order_by("-id")[:limit])
