"""What an alert rule is: a condition on a measure, how long it must hold, and what the alert tells people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.alerting.measures import MEASURES, Measure
from platform_core.units import HOUR_MS, MINUTE_MS, format_duration_ms


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Comparison(StrEnum):
    BELOW = "<"
    ABOVE = ">"

    def holds(self, value: float, limit: float) -> bool:
        return value < limit if self is Comparison.BELOW else value > limit

    @property
    def words(self) -> str:
        return "below" if self is Comparison.BELOW else "above"


@dataclass(frozen=True, slots=True)
class Condition:
    """`measure comparison limit` for `for_ms`. It is over once the value has been on the other side of `clear_at`
    for `clear_ms`: the distance between the two is the hysteresis."""

    measure: str
    comparison: Comparison
    limit: float
    for_ms: int = 0
    clear_at: float | None = None  # None: the limit
    clear_ms: int = MINUTE_MS

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(f"there is no measure {self.measure}; there are {', '.join(sorted(MEASURES))}")
        if self.for_ms < 0 or self.clear_ms < 0:
            raise ValueError("a duration is not negative")
        if self.clear_at is not None and self.comparison.holds(self.clear_at, self.limit):
            side = "above" if self.comparison is Comparison.BELOW else "below"
            raise ValueError(f"it clears at {self.clear_at:g}, which must be {side} the limit {self.limit:g}")

    @property
    def of(self) -> Measure:
        return MEASURES[self.measure]

    def is_met(self, value: float) -> bool:
        return self.comparison.holds(value, self.limit)

    def is_clear(self, value: float) -> bool:
        """Whether a firing alert may end: on the good side of `clear_at`, or just at it."""
        if self.is_met(value):
            return False
        return (
            self.clear_at is None or value == self.clear_at or not self.comparison.holds(value, self.clear_at)
        )

    @property
    def words(self) -> str:
        """ "below 80 % for 5 min"."""
        limit = self.of.unit.words(self.limit)
        lasting = f" for {format_duration_ms(self.for_ms)}" if self.for_ms else ""
        return f"{self.comparison.words} {limit}{lasting}"


@dataclass(frozen=True, slots=True)
class Rule:
    """`meaning` is a sentence over {name}, {team}, {value} and {limit}; {detail} is what the measure adds."""

    code: str
    title: str
    condition: Condition
    severity: Severity
    meaning: str
    remedy: str
    team: str = (
        ""  # that wrote it and whose subjects it looks at; "": built in or of operators, for all subjects
    )
    missing_after_ms: int = 5 * MINUTE_MS  # without a value for so long its alerts have no data
    inhibited_by: tuple[str, ...] = ()  # codes of rules whose firing alerts explain these
    repeat_ms: int = 6 * HOUR_MS  # until somebody acknowledges it, people are told again

    def says(self, name: str, team: str, value: float | None, detail: str = "") -> str:
        unit = self.condition.of.unit
        shown = "unknown" if value is None else unit.words(value)
        limit = unit.words(self.condition.limit)
        return self.meaning.format(name=name, team=team, value=shown, limit=limit, detail=detail).strip()
