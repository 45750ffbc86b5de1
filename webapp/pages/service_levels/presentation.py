"""Service levels in words and figures, for their pages and for the weekly report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from platform_core.service_levels import budget
from platform_core.service_levels.budget import Counts, Standing
from platform_core.service_levels.objectives import Objective, percent
from platform_core.units import format_duration_ms
from webapp.pages.figures import Figure
from webapp.service_levels.queries import WEEK_MS, Durations, Level

NO_DATA = "no data"
WORDS = {Standing.MET: "met", Standing.MISSED: "missed", Standing.NO_DATA: NO_DATA}


@dataclass(frozen=True, slots=True)
class LevelRow:
    objective: Objective
    target: str
    week: str
    week_events: str
    month: str
    month_events: str
    budget: str
    standing: Standing  # of 28 days
    standing_of_week: Standing
    trend: str
    compliances: tuple[float | None, ...]  # by week, in percent, the oldest first

    @property
    def words(self) -> str:
        return WORDS[self.standing]

    @property
    def words_of_week(self) -> str:
        return WORDS[self.standing_of_week]


@dataclass(frozen=True, slots=True)
class WeekRow:
    """Seven days."""

    from_ms: int
    to_ms: int
    compliance: str
    events: str
    budget_spent: str  # of a budget of seven days
    standing: Standing

    @property
    def words(self) -> str:
        return WORDS[self.standing]


def rows(levels: Sequence[Level]) -> list[LevelRow]:
    return [_row(level) for level in levels]


def _row(level: Level) -> LevelRow:
    left = level.budget_left
    return LevelRow(
        level.objective,
        percent(level.objective.target),
        compliance(level.week),
        _events(level.week, level.objective),
        compliance(level.month),
        _events(level.month, level.objective),
        NO_DATA if left is None else _budget(left),
        level.standing,
        level.standing_of_week,
        level.trend.replace("_", " "),
        tuple(None if week.compliance is None else 100 * week.compliance for week in level.weeks),
    )


def compliance(counts: Counts) -> str:
    """Rounded down, so that what is not all of them never reads as 100 %."""
    if counts.compliance is None:
        return NO_DATA
    shown = Decimal(100 * counts.compliance).quantize(Decimal("0.001"), ROUND_FLOOR)
    return f"{f'{shown:f}'.rstrip('0').rstrip('.')} %"


def _budget(left: float) -> str:
    return f"{100 * left:.0f} % left" if left >= 0 else f"overspent by {-100 * left:,.0f} %"


def _events(counts: Counts, objective: Objective) -> str:
    if not counts.total:
        return ""
    return f"{_amount(counts.good)} of {_amount(counts.total)} {objective.counted}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"


def weeks(level: Level) -> list[WeekRow]:
    """The newest first."""
    found = []
    for ago, counts in enumerate(reversed(level.weeks)):
        rate = budget.burn_rate(counts, level.objective.target)
        to_ms = level.at_ms - ago * WEEK_MS
        found.append(
            WeekRow(
                to_ms - WEEK_MS, to_ms, compliance(counts), _events(counts, level.objective),
                NO_DATA if rate is None else f"{100 * rate:,.0f} %", budget.standing(counts, level.objective.target),
            )
        )  # fmt: skip
    return found


def figures(levels: Sequence[Level], durations: Durations, *, of_team: bool) -> list[Figure]:
    standings = [level.standing for level in levels]
    met, missed = standings.count(Standing.MET), standings.count(Standing.MISSED)
    unknown = standings.count(Standing.NO_DATA)
    found = [
        Figure("Objectives met", f"{met} of {met + missed}", "over 28 days"),
        Figure("Missed", str(missed), "", "bad" if missed else ""),
        Figure("No data", str(unknown), "nothing was measured" if unknown else ""),
    ]
    if not of_team:
        mean, longest = durations.recovery_ms, durations.longest_recovery_ms
        value = NO_DATA if mean is None else format_duration_ms(mean)
        note = "7 days" if longest is None else f"7 days; longest {format_duration_ms(longest)}"
        found.append(Figure("Mean time to recovery", value, note))
    return found
