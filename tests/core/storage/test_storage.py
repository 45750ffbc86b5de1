"""Growth that one large upload does not turn, and left-overs that go only when they should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.storage.growth import Day, days_left, per_day
from platform_core.storage.leftovers import OLD_MS, LeftoverKind, is_due, is_leftover
from platform_core.storage.price import monthly
from platform_core.storage.scrub import is_late, round_bytes
from platform_core.units import DAY_MS

LINES = st.tuples(st.integers(0, 10**12), st.integers(-(10**9), 10**9), st.integers(3, 28))


@given(LINES)
def test_a_steady_growth_is_found_exactly(line: tuple[int, int, int]) -> None:
    start, slope, days = line
    assert per_day([Day(number, start + slope * number) for number in range(days)]) == slope


@given(LINES, st.integers(0, 27), st.integers(-(10**15), 10**15))
def test_one_wild_day_of_many_does_not_turn_the_trend(line: tuple[int, int, int], wild: int, by: int) -> None:
    start, slope, _ = line
    days = [Day(number, start + slope * number + (by if number == wild else 0)) for number in range(28)]
    assert per_day(days) == slope


def test_too_few_days_say_nothing() -> None:
    assert per_day([Day(1, 5), Day(2, 9)]) is None
    assert per_day([Day(1, 5), Day(1, 6), Day(1, 7)]) is None


@pytest.mark.parametrize(
    ("used", "growth", "left"),
    [
        (10, 2.0, 45.0),
        (100, -5.0, 0.0),
        (120, None, 0.0),
        (10, 0.0, None),
        (10, -1.0, None),
        (10, None, None),
        (10, 90 / 3_650, 3_650.0),
        (10, 90 / 3_700, None),  # no month tells what comes in ten years
    ],
)
def test_days_until_the_limit(used: int, growth: float | None, left: float | None) -> None:
    assert days_left(used, 100, growth) == (left if left is None else pytest.approx(left))


@given(st.sampled_from(LeftoverKind), st.integers(0, 60 * DAY_MS))
def test_bytes_are_left_over_once_they_are_old(kind: LeftoverKind, age_ms: int) -> None:
    assert is_leftover(kind, 1_000, 1_000 + age_ms) == (age_ms >= OLD_MS[kind])


@given(st.booleans(), st.integers(0, 20 * DAY_MS), st.integers(0, 10 * DAY_MS))
def test_nothing_goes_before_its_grace_is_over_and_what_is_kept_never(
    kept: bool, age_ms: int, grace_ms: int
) -> None:
    due = is_due(0, kept, grace_ms, age_ms)
    assert due == (not kept and grace_ms > 0 and age_ms >= grace_ms)


@given(st.integers(0, 2**60), st.integers(1, 365), st.integers(1, DAY_MS))
def test_rounds_read_the_whole_store_within_the_days_promised(stored: int, days: int, every_ms: int) -> None:
    rounds = days * DAY_MS // every_ms + 1
    assert rounds * round_bytes(stored, days, every_ms) >= stored


def test_a_reading_is_late_a_tenth_after_the_promise() -> None:
    assert not is_late(0, 30, 33 * DAY_MS)
    assert is_late(0, 30, 33 * DAY_MS + 1)


def test_a_tib_for_a_month_costs_its_price() -> None:
    assert monthly(2**40, 23) == 23_000_000
    assert monthly(2**39, 23) == 11_500_000
    assert monthly(5 * 2**40, 0) == 0
