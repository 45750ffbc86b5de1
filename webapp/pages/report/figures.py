"""The main figures of a period, and how they have changed against the period before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Min

from platform_core.efficiency.waste import Use as JobUse
from platform_core.efficiency.waste import total
from platform_core.quotas.cost import cost_micro_dollars
from platform_core.scheduling.metrics.waits_by_size import percentile
from platform_core.units import HOUR_MS, format_duration_ms, format_micro_dollars
from webapp.jobs import measures, recoveries
from webapp.jobs import queries as jobs
from webapp.jobs.models import UtilisationSample
from webapp.pages.figures import Figure
from webapp.quotas import queries as quotas


@dataclass(frozen=True, slots=True)
class Figures:
    held: float | None
    busy: float | None
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    mfu: float | None
    gpu_ms: int
    micro_dollars: int
    unallocated_micro_dollars: int | None  # None: no price is known
    failures: int
    recovered: float | None
    recovery_ms: int | None
    steps_lost: int
    effective: float | None


def first_sample_ms() -> int | None:
    return UtilisationSample.objects.aggregate(first=Min("at_ms"))["first"]


def of(from_ms: int, to_ms: int, seen: Collection[str] | None, work: Iterable[JobUse]) -> Figures:
    """Hours and costs are those of the teams that are seen, None means all; MFU is that of the work, theirs too."""
    uses = measures.use_by_type(from_ms, to_ms)
    waits = sorted(ms for _, ms in jobs.first_waits(from_ms, to_ms))
    costs = [
        cost for (team, _), cost in quotas.use_by_team(from_ms, to_ms).items() if seen is None or team in seen
    ]
    recovery, prices = recoveries.of_period(from_ms, to_ms), quotas.prices()
    mfu, effective = total("", work).mfu, recoveries.effective_of_period(from_ms, to_ms).ratio
    return Figures(
        held=_percent(sum(each.held_slots for each in uses), sum(each.slots for each in uses)),
        busy=_percent(sum(each.used for each in uses), sum(each.measured for each in uses)),
        wait_p50_ms=percentile(waits, 50) if waits else None,
        wait_p95_ms=percentile(waits, 95) if waits else None,
        mfu=None if mfu is None else 100 * mfu,
        gpu_ms=sum(gpu_ms for gpu_ms, _ in costs),
        micro_dollars=sum(dollars for _, dollars in costs),
        unallocated_micro_dollars=sum(
            cost_micro_dollars(each.unallocated_ms, 1, prices.get(each.gpu_type, 0)) for each in uses
        )
        if prices
        else None,
        failures=sum(jobs.failures_by_node(from_ms, to_ms).values()),
        recovered=None if recovery.success is None else 100 * recovery.success,
        recovery_ms=recovery.mean_ms,
        steps_lost=recovery.steps_lost,
        effective=None if effective is None else 100 * effective,
    )


def compared(now: Figures, before: Figures) -> tuple[Figure, ...]:
    return (
        _figure("Allocation", now.held, before.held, _share),
        _figure("Utilisation", now.busy, before.busy, _share),
        _figure("MFU", now.mfu, before.mfu, _share),
        _figure("Median wait", now.wait_p50_ms, before.wait_p50_ms, format_duration_ms),
        _figure("p95 wait", now.wait_p95_ms, before.wait_p95_ms, format_duration_ms),
        _figure("GPU-hours", now.gpu_ms, before.gpu_ms, _hours),
        _figure("Cost", now.micro_dollars, before.micro_dollars, format_micro_dollars),
        _figure(
            "Unallocated capacity",
            now.unallocated_micro_dollars,
            before.unallocated_micro_dollars,
            format_micro_dollars,
        ),
        _figure("Failed attempts", now.failures, before.failures, str),
        _figure("Recovered", now.recovered, before.recovered, _share),
        _figure("Mean time to recovery", now.recovery_ms, before.recovery_ms, format_duration_ms),
        _figure("Effective training time", now.effective, before.effective, _share),
        _figure("Steps lost", now.steps_lost, before.steps_lost, "{:,}".format),
    )


def _figure(label: str, now: float | None, before: float | None, say: Callable[[Any], str]) -> Figure:
    value = "–" if now is None else say(now)
    if before is None or now is None:
        return Figure(label, value, "" if before is None else f"previously {say(before)}")
    previous = say(before)
    if previous == value:
        return Figure(label, value, "unchanged")
    return Figure(label, value, f"{'up' if now > before else 'down'} from {previous}")


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def _share(percent: float) -> str:
    return f"{percent:.0f} %"


def _hours(ms: int) -> str:
    return f"{ms / HOUR_MS:,.1f}"
