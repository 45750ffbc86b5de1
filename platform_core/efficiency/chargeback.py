"""What each team is charged for a period: GPU-hours, cost and waste, by GPU type."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from platform_core.efficiency.waste import Total, Use, total
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS, MICRO_DOLLARS

MOST_DAYS = 400
COLUMNS = (
    "team", "gpu_type", "from", "to", "jobs", "gpu_hours", "cost_dollars", "wasted_gpu_hours", "wasted_dollars",
    "utilisation", "mfu",
)  # fmt: skip
ALL = "all"  # of the GPU types of a team, and of the teams
_MONTH = re.compile(r"(19[7-9]\d|2\d{3})-(0[1-9]|1[0-2])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days in UTC, without the day of `to_ms`."""

    from_ms: int
    to_ms: int

    @property
    def first(self) -> str:
        return _day(self.from_ms)

    @property
    def last(self) -> str:
        return _day(self.to_ms - 1)


@dataclass(frozen=True, slots=True)
class Charge:
    """One line; `gpu_type` is ALL for the sum of a team, and `team` too for the sum of all."""

    team: str
    gpu_type: str
    total: Total


def period_of(month: str, first: str, last: str, now_ms: int) -> Period:
    """The month, or the days from first to last, both included; without either the last month that is over.

    Raises request_invalid.
    """
    if first or last:
        from_ms, to_ms = _read(first, "from"), _read(last, "to") + DAY_MS
        if not from_ms < to_ms <= from_ms + MOST_DAYS * DAY_MS:
            why = f"{first} to {last} is no period of 1 to {MOST_DAYS} days"
            raise TrainmasterError("request_invalid", what="the period", why=why)
        return Period(from_ms, to_ms)
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    if not month:
        return _month(now.year - (now.month == 1), now.month - 1 or 12)
    if (found := _MONTH.fullmatch(month)) is None:
        why = f"{month[:20]!r} is no month such as {now.year}-{now.month:02}"
        raise TrainmasterError("request_invalid", what="month", why=why)
    return _month(int(found[1]), int(found[2]))


def charges(uses: Iterable[Use]) -> list[Charge]:
    """By team and GPU type, each team with its sum, and at the end the sum of all."""
    listed = list(uses)
    found = []
    for team in sorted({use.team for use in listed}):
        of_team = [use for use in listed if use.team == team]
        found += [
            Charge(team, gpu_type, total(team, [use for use in of_team if use.gpu_type == gpu_type]))
            for gpu_type in sorted({use.gpu_type for use in of_team})
        ]
        found.append(Charge(team, ALL, total(team, of_team)))
    return [*found, Charge(ALL, ALL, total(ALL, listed))]


def as_csv(lines: Sequence[Charge], period: Period) -> str:
    """A text that a spreadsheet would compute is kept from it by a quote."""
    text = _Text()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for line in lines:
        sums = line.total
        names = [
            f"'{name}" if name.startswith(tuple("=+-@\t\r")) else name for name in (line.team, line.gpu_type)
        ]
        hours, wasted = (f"{ms / HOUR_MS:.3f}" for ms in (sums.gpu_ms, sums.wasted_ms))
        cost, lost = (
            f"{dollars / MICRO_DOLLARS:.2f}" for dollars in (sums.micro_dollars, sums.wasted_micro_dollars)
        )
        shares = ("" if share is None else f"{share:.3f}" for share in (sums.utilisation, sums.mfu))
        writer.writerow((*names, period.first, period.last, sums.jobs, hours, cost, wasted, lost, *shares))
    return "".join(text.parts)


class _Text:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, part: str) -> None:
        self.parts.append(part)


def _month(year: int, month: int) -> Period:
    following = (year + (month == 12), month % 12 + 1)
    return Period(_ms(datetime(year, month, 1, tzinfo=UTC)), _ms(datetime(*following, 1, tzinfo=UTC)))


def _read(text: str, what: str) -> int:
    try:
        return _ms(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise TrainmasterError(
            "request_invalid", what=what, why=f"{text[:20]!r} is no day such as 2026-10-31"
        ) from error


def _ms(moment: datetime) -> int:
    return round(moment.timestamp()) * 1000


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d")
