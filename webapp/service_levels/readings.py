"""Good events of all events in a period: one function for each objective, over the measures of the apps below."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db.models import Min, Sum

from platform_core.service_levels import availability, first_steps
from platform_core.service_levels.budget import Counts
from platform_core.service_levels.first_steps import Start
from platform_core.service_levels.objectives import SMALL_JOB
from webapp.checkpoints import measures as checkpoints
from webapp.jobs import measures as jobs
from webapp.service_levels.measuring import API_LATENCY, AVAILABILITY
from webapp.service_levels.models import Measurement
from webapp.service_levels.values import Period, Read

SAMPLE_HOURS = 15 / 3600  # the time that one sample of utilisation stands for


def _first_step(counts: Callable[[Start], bool]) -> Read:
    def read(period: Period) -> Counts:
        began = period.from_ms - period.limit_ms
        found = [start for start in jobs.starts(began, period.to_ms, period.team) if counts(start)]
        return first_steps.counts(found, period.limit_ms, period.from_ms, period.to_ms)

    return read


def _utilisation(period: Period) -> Counts:
    uses = jobs.use_by_type(period.from_ms, period.to_ms)
    wanted = sum(use.wanted for use in uses) * SAMPLE_HOURS
    return Counts(min(wanted, sum(use.used for use in uses) * SAMPLE_HOURS), wanted)


def _completion(period: Period) -> Counts:
    ended = jobs.ended(period.from_ms, period.to_ms, period.team)
    return Counts(ended.all - ended.failed_by_platform, ended.all)


def _checkpoints(period: Period) -> Counts:
    saves = checkpoints.saves(period.from_ms, period.to_ms, period.at_ms)
    return Counts(saves.all - saves.failed, saves.all)


def _recovery(period: Period) -> Counts:
    found = recovered(period).summary
    return Counts(found.succeeded, found.count)


def _recovery_time(period: Period) -> Counts:
    found = recovered(period)
    return Counts(found.within_limit, found.decided)


def recovered(period: Period) -> jobs.Recovered:
    return jobs.recovered(period.from_ms, period.to_ms, period.limit_ms, period.at_ms)


def _availability(period: Period) -> Counts:
    first = Measurement.objects.filter(code=AVAILABILITY).aggregate(at=Min("at_ms"))["at"]
    begin, end = availability.minute_of(period.from_ms), availability.minute_of(period.to_ms)
    return availability.counts(round(_measured(AVAILABILITY, begin, end).good), first, begin, end)


def _api_latency(period: Period) -> Counts:
    return _measured(API_LATENCY, period.from_ms, period.to_ms)


def _measured(code: str, from_ms: int, to_ms: int) -> Counts:
    rows = Measurement.objects.filter(code=code, at_ms__gte=from_ms, at_ms__lt=to_ms)
    sums = rows.aggregate(good=Sum("good", default=0), total=Sum("total", default=0))
    return Counts(sums["good"], sums["total"])


READS: dict[str, Read] = {
    "first_step_small": _first_step(lambda start: start.gpus <= SMALL_JOB),
    "first_step_large": _first_step(lambda start: start.gpus > SMALL_JOB),
    "utilisation": _utilisation,
    "completion": _completion,
    "checkpoints": _checkpoints,
    "recovery": _recovery,
    "recovery_time": _recovery_time,
    "availability": _availability,
    "api_latency": _api_latency,
}
OF_TEAMS: Mapping[str, Read] = {
    code: READS[code] for code in ("first_step_small", "first_step_large", "completion")
}


def register(code: str, read: Read) -> None:
    """An app above this one reads its own measure."""
    READS[code] = read
