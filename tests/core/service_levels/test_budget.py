"""Compliance, error budget, burn rate and trend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.service_levels.budget import (
    Counts,
    Standing,
    Trend,
    budget_left,
    burn_rate,
    standing,
    trend,
)
from platform_core.service_levels.burning import FAST, LEAST_EVENTS, SLOW, sustained

TARGETS = st.floats(0.5, 0.9999)
TOTALS = st.integers(1, 10**6)


@st.composite
def some_counts(draw: st.DrawFn) -> Counts:
    total = draw(TOTALS)
    return Counts(draw(st.integers(0, total)), total)


def test_without_events_nothing_is_known() -> None:
    nothing = Counts()
    assert nothing.compliance is None
    assert budget_left(nothing, 0.99) is None
    assert burn_rate(nothing, 0.99) is None
    assert standing(nothing, 0.99) is Standing.NO_DATA
    assert trend(nothing, Counts(1, 1), 0.99) is Trend.NO_DATA
    assert trend(Counts(1, 1), nothing, 0.99) is Trend.NO_DATA


@pytest.mark.parametrize(("good", "total"), [(2, 1), (-1, 1), (1, 0)])
def test_more_good_events_than_events_are_refused(good: int, total: int) -> None:
    with pytest.raises(ValueError, match="is not between none and all"):
        Counts(good, total)


@pytest.mark.parametrize("target", [0.0, 1.0, 1.5])
def test_a_target_without_a_budget_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match="leaves no error budget"):
        burn_rate(Counts(1, 1), target)


@pytest.mark.parametrize(
    ("good", "left", "judged"),
    [
        (1000, 1.0, Standing.MET),
        (995, 0.5, Standing.MET),
        (990, 0.0, Standing.MET),
        (970, -2.0, Standing.MISSED),
    ],
)
def test_the_budget_is_what_the_target_allows(good: int, left: float, judged: Standing) -> None:
    assert budget_left(Counts(good, 1000), 0.99) == pytest.approx(left)
    assert standing(Counts(good, 1000), 0.99) is judged


@given(some_counts(), TARGETS)
def test_the_budget_is_overspent_just_where_the_target_is_missed(counts: Counts, target: float) -> None:
    left = budget_left(counts, target)
    assert left is not None
    if abs(left) > 1e-6:
        assert (left > 0) == (standing(counts, target) is Standing.MET)


@given(some_counts(), some_counts(), TARGETS)
def test_two_periods_together_burn_between_both(one: Counts, other: Counts, target: float) -> None:
    rates = [burn_rate(counts, target) or 0 for counts in (one, other, one + other)]
    assert min(rates[:2]) - 1e-9 <= rates[2] <= max(rates[:2]) + 1e-9


@given(some_counts(), some_counts(), TARGETS)
def test_a_trend_turns_round_with_time(before: Counts, now: Counts, target: float) -> None:
    opposite = {Trend.BETTER: Trend.WORSE, Trend.WORSE: Trend.BETTER, Trend.UNCHANGED: Trend.UNCHANGED}
    assert trend(now, before, target) is opposite[trend(before, now, target)]


def test_a_small_change_is_none() -> None:
    assert trend(Counts(9900, 10_000), Counts(9905, 10_000), 0.99) is Trend.UNCHANGED
    assert trend(Counts(9900, 10_000), Counts(9950, 10_000), 0.99) is Trend.BETTER
    assert trend(Counts(9900, 10_000), Counts(9800, 10_000), 0.99) is Trend.WORSE


def test_a_budget_burns_only_while_both_windows_do() -> None:
    broken, whole = Counts(800, 1000), Counts(10, 10)
    assert sustained(broken, Counts(5, 10), 0.99) == pytest.approx(20)
    assert sustained(broken, whole, 0.99) == 0  # it is over
    assert sustained(whole, Counts(0, 10), 0.99) == 0  # too short to count


def test_few_events_burn_nothing() -> None:
    few = Counts(0, LEAST_EVENTS - 1)
    assert sustained(few, few, 0.99) is None
    assert sustained(Counts(0, LEAST_EVENTS), Counts(), 0.99) is None


@pytest.mark.parametrize(("burn", "spent"), [(FAST, 0.02), (SLOW, 0.05)])
def test_the_limits_are_those_of_the_workbook(burn: object, spent: float) -> None:
    assert burn.limit * burn.long_ms / (30 * 86_400_000) == pytest.approx(spent)  # type: ignore[attr-defined]
    assert burn.short_ms * 12 == burn.long_ms  # type: ignore[attr-defined]
