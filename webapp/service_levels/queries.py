"""The service levels of the cluster or of a team, over rolling periods of seven days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.cache import cache
from django.db.models import Q

from platform_core.errors import TrainmasterError
from platform_core.scheduling.metrics.waits_by_size import Waits, by_size
from platform_core.service_levels import budget, burning
from platform_core.service_levels.availability import minute_of
from platform_core.service_levels.budget import Counts, Standing, Trend
from platform_core.service_levels.objectives import BY_CODE, OBJECTIVES, Objective, changed
from platform_core.service_levels.planned_stops import outside
from platform_core.units import DAY_MS, MINUTE_MS
from webapp.base import stops
from webapp.jobs import measures as jobs
from webapp.service_levels import readings
from webapp.service_levels.measuring import AVAILABILITY
from webapp.service_levels.models import Measurement, ObjectiveChange
from webapp.service_levels.readings import recovered
from webapp.service_levels.values import Period

WEEK_MS = 7 * DAY_MS
WEEKS, BUDGET_WEEKS = 8, 4
CACHED_SECONDS = 120
OUTAGES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """An objective in force, and who changed it."""

    objective: Objective
    changed_by: str = ""
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """`weeks` are periods of seven days, the oldest first. The error budget is that of the last 28 days."""

    entry: Entry
    at_ms: int
    weeks: tuple[Counts, ...]

    @property
    def objective(self) -> Objective:
        return self.entry.objective

    @property
    def week(self) -> Counts:
        return self.weeks[-1]

    @property
    def month(self) -> Counts:
        return sum(self.weeks[-BUDGET_WEEKS:], Counts())

    @property
    def standing(self) -> Standing:
        return budget.standing(self.month, self.objective.target)

    @property
    def standing_of_week(self) -> Standing:
        return budget.standing(self.week, self.objective.target)

    @property
    def budget_left(self) -> float | None:
        return budget.budget_left(self.month, self.objective.target)

    @property
    def trend(self) -> Trend:
        return budget.trend(self.weeks[-2], self.week, self.objective.target)


@dataclass(frozen=True, slots=True)
class Durations:
    """Of seven days: to the first step by size of the job, and from a fault to the next step."""

    first_steps: tuple[Waits, ...]
    recovery_ms: int | None  # MTTR
    longest_recovery_ms: int | None
    recoveries: int


@dataclass(frozen=True, slots=True)
class Outage:
    at_ms: int
    note: str


def entries() -> list[Entry]:
    rows = {row.code: row for row in ObjectiveChange.objects.select_related("changed_by")}
    return [_entry(objective, rows.get(objective.code)) for objective in OBJECTIVES]


def entry(code: str) -> Entry:
    """Raises not_found."""
    if code not in BY_CODE:
        raise TrainmasterError("not_found", what=f"service level {code}")
    row = ObjectiveChange.objects.select_related("changed_by").filter(code=code).first()
    return _entry(BY_CODE[code], row)


def _entry(objective: Objective, row: ObjectiveChange | None) -> Entry:
    if row is None:
        return Entry(objective)
    return Entry(changed(objective, row.target, row.limit_ms), row.changed_by.username, row.changed_ms)


def levels(at_ms: int, team: str = "") -> list[Level]:
    """Of the cluster, or those that a team has of its own."""
    at_ms = minute_of(at_ms)
    known = readings.OF_TEAMS if team else readings.READS
    return [_level(each, at_ms, team) for each in entries() if each.objective.code in known]


def level(code: str, at_ms: int) -> Level:
    """Raises not_found."""
    return _level(entry(code), minute_of(at_ms), "")


def _level(each: Entry, at_ms: int, team: str) -> Level:
    """What was counted is kept for two minutes: the page, the API and the report share it."""
    objective = each.objective
    key = f"service_levels:{objective.code}:{objective.limit_ms}:{team}:{at_ms}"
    weeks = cache.get(key)
    if weeks is None:
        weeks = tuple(_counts(objective, period, team) for period in _weeks(at_ms))
        cache.set(key, weeks, CACHED_SECONDS)
    return Level(each, at_ms, weeks)


def _weeks(at_ms: int) -> Sequence[tuple[int, int, int]]:
    """(from, to, asked at) of each."""
    ends = [at_ms - ago * WEEK_MS for ago in reversed(range(WEEKS))]
    return [(end - WEEK_MS, end, at_ms) for end in ends]


def _counts(objective: Objective, period: tuple[int, int, int], team: str = "") -> Counts:
    """Without what was decided while the platform was stopped by an operator: that is nobody's fault."""
    from_ms, to_ms, at_ms = period
    read = readings.READS[objective.code]
    parts = outside(from_ms, to_ms, stops.between(from_ms, to_ms))
    limit_ms = objective.limit_ms or 0
    return sum((read(Period(begin, end, at_ms, limit_ms, team)) for begin, end in parts), Counts())


def durations(at_ms: int, team: str = "") -> Durations:
    """Recoveries are those of the whole cluster."""
    at_ms = minute_of(at_ms)
    limit_ms = BY_CODE["recovery_time"].limit_ms or 0
    recoveries = recovered(Period(at_ms - WEEK_MS, at_ms, at_ms, limit_ms)).summary
    waits = by_size(jobs.first_steps(at_ms - WEEK_MS, at_ms, team))
    return Durations(waits, recoveries.mean_ms, recoveries.longest_ms, recoveries.count)


def outages(at_ms: int) -> list[Outage]:
    """The newest probes of a week that failed. Minutes that no probe was made in have no row."""
    rows = Measurement.objects.filter(code=AVAILABILITY, good=0)
    counted = Q(pk__in=[])
    for begin, end in outside(at_ms - WEEK_MS, at_ms, stops.between(at_ms - WEEK_MS, at_ms)):
        counted |= Q(at_ms__gte=begin, at_ms__lt=end)
    return [Outage(row.at_ms, row.note) for row in rows.filter(counted).order_by("-at_ms")[:OUTAGES_SHOWN]]


@dataclass(frozen=True, slots=True)
class StoppedTime:
    """What operators stopped within the 28 days of the error budget, and for how long the platform was down by it."""

    stops: int
    lasted_ms: int


def stopped(at_ms: int) -> StoppedTime:
    from_ms = at_ms - BUDGET_WEEKS * WEEK_MS
    found = stops.between(from_ms, at_ms)
    counted = sum(end - begin for begin, end in outside(from_ms, at_ms, found))
    return StoppedTime(len(found), at_ms - from_ms - counted)


def burns(burn: burning.Burn, at_ms: int) -> list[tuple[Objective, float | None]]:
    """How fast the error budget of each objective burns; None where too little is known."""
    minute = minute_of(at_ms)
    key = f"service_levels:burns:{burn.code}:{minute}"
    rates = cache.get(key)
    known = [each.objective for each in entries() if each.objective.code in readings.READS]
    if rates is None:
        rates = {objective.code: _burn(objective, burn, minute) for objective in known}
        cache.set(key, rates, MINUTE_MS // 1000)
    return [(objective, rates.get(objective.code)) for objective in known]


def _burn(objective: Objective, burn: burning.Burn, at_ms: int) -> float | None:
    long, short = (
        _counts(objective, (at_ms - length, at_ms, at_ms)) for length in (burn.long_ms, burn.short_ms)
    )
    return burning.sustained(long, short, objective.target)
