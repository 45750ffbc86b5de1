"""Weeks as the report knows them: from Monday to Sunday in UTC, named as in ISO 8601: 2026-W46."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS

WEEK_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class Week:
    name: str
    from_ms: int

    @property
    def to_ms(self) -> int:
        return self.from_ms + WEEK_MS

    @property
    def words(self) -> str:
        """ "9 November to 15 November 2026"."""
        first, last = _day(self.from_ms), _day(self.to_ms - DAY_MS)
        return f"{first.day} {first:%B} to {last.day} {last:%B} {last.year}"


def of(at_ms: int) -> Week:
    """The week in which that is."""
    day = _day(at_ms)
    monday = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=day.weekday())
    year, number, _ = monday.isocalendar()
    return Week(f"{year}-W{number:02}", round(monday.timestamp()) * 1000)


def newest(now_ms: int) -> Week:
    """The last that is over."""
    return of(now_ms - WEEK_MS)


def read(name: str, now_ms: int) -> Week:
    """A week that is over. Raises request_invalid with what is wrong and what could be asked instead."""
    last = newest(now_ms)
    try:
        week = of(round(datetime.strptime(f"{name}-1+0000", "%G-W%V-%u%z").timestamp()) * 1000)
    except (ValueError, OverflowError) as error:
        why = f"a week is a year and its number, as in {last.name}"
        raise TrainmasterError("request_invalid", what=f"week {name!r}", why=why) from error
    if week.from_ms > last.from_ms:
        why = f"it is not over yet; the last that is over is {last.name}"
        raise TrainmasterError("request_invalid", what=f"week {name!r}", why=why)
    return week


def _day(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC)
