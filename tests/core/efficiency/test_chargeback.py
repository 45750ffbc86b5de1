"""What each team is charged for a period."""

from __future__ import annotations

import csv
import io

import pytest

from platform_core.efficiency.chargeback import ALL, COLUMNS, as_csv, charges, period_of
from platform_core.efficiency.waste import Use
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS

NOVEMBER = 1_793_800_000_000  # in 2026


def use(team: str, gpu_type: str, hours: int, busy: float | None = None) -> Use:
    return Use("job", "name", team, "alice", gpu_type, hours * HOUR_MS, hours * 2_000_000, busy)


def test_each_gpu_type_has_a_line_each_team_a_sum_and_all_have_one() -> None:
    found = charges([use("b", "h100", 2, 0.5), use("a", "h100", 1), use("b", "a100", 4), use("b", "h100", 1)])
    assert [(line.team, line.gpu_type, line.total.gpu_ms // HOUR_MS) for line in found] == [
        ("a", "h100", 1), ("a", ALL, 1), ("b", "a100", 4), ("b", "h100", 3), ("b", ALL, 7), (ALL, ALL, 8),
    ]  # fmt: skip
    assert found[-1].total.wasted_ms == HOUR_MS
    assert found[-1].total.micro_dollars == 16_000_000


def test_a_period_without_use_has_only_the_sum() -> None:
    [whole] = charges([])
    assert (whole.team, whole.total.jobs, whole.total.micro_dollars) == (ALL, 0, 0)


@pytest.mark.parametrize(
    ("month", "first", "last", "days"),
    [
        ("", "", "", ("2026-10-01", "2026-10-31")),
        ("2026-02", "", "", ("2026-02-01", "2026-02-28")),
        ("2026-12", "", "", ("2026-12-01", "2026-12-31")),
        ("", "2026-10-05", "2026-10-05", ("2026-10-05", "2026-10-05")),
    ],
)
def test_a_period_is_a_month_or_days_with_both_ends(
    month: str, first: str, last: str, days: tuple[str, str]
) -> None:
    period = period_of(month, first, last, NOVEMBER)
    assert (period.first, period.last) == days
    assert (period.to_ms - period.from_ms) % DAY_MS == 0


def test_in_january_the_last_month_is_of_the_year_before() -> None:
    assert period_of("", "", "", NOVEMBER + 80 * DAY_MS).first == "2026-12-01"


@pytest.mark.parametrize(
    "asked",
    [("2026-13", "", ""), ("October", "", ""), ("", "2026-10-05", ""), ("", "2026-10-05", "2026-10-04"),
     ("", "2020-01-01", "2026-01-01"), ("", "yesterday", "2026-10-01"), ("9999-12", "", ""),
     ("0000-01", "", "")],
)  # fmt: skip
def test_what_is_no_period_is_refused(asked: tuple[str, str, str]) -> None:
    with pytest.raises(TrainmasterError) as refused:
        period_of(*asked, NOVEMBER)
    assert refused.value.code == "request_invalid"


def test_the_csv_has_nothing_that_a_spreadsheet_computes() -> None:
    text = as_csv(charges([use("=team", "h100", 3, 0.5)]), period_of("2026-10", "", "", NOVEMBER))
    lines = list(csv.DictReader(io.StringIO(text)))
    assert tuple(lines[0]) == COLUMNS
    assert lines[0]["team"] == "'=team"
    assert (lines[0]["from"], lines[0]["to"]) == ("2026-10-01", "2026-10-31")
    assert (lines[0]["gpu_hours"], lines[0]["cost_dollars"]) == ("3.000", "6.00")
    assert (lines[0]["wasted_gpu_hours"], lines[0]["wasted_dollars"], lines[0]["mfu"]) == (
        "1.500",
        "3.00",
        "",
    )
