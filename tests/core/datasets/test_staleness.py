"""A dataset is stale by its own habit, not by a number of days."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.datasets.staleness import overdue
from platform_core.units import DAY_MS

DAYS = st.lists(st.integers(0, 3650 * DAY_MS), min_size=3, max_size=30)


def test_a_dataset_of_two_versions_has_no_habit() -> None:
    assert overdue([0, DAY_MS], 900 * DAY_MS) is None


@pytest.mark.parametrize(("days", "intervals"), [(7, 1.0), (21, 3.0), (0, 0.0)])
def test_the_age_counts_in_usual_intervals(days: int, intervals: float) -> None:
    weekly = [0, 7 * DAY_MS, 14 * DAY_MS, 21 * DAY_MS]
    assert overdue(weekly, (21 + days) * DAY_MS) == intervals


def test_many_versions_in_an_hour_do_not_make_the_next_day_late() -> None:
    assert overdue([0, 1000, 2000], DAY_MS + 2000) == 1.0


@given(DAYS, st.integers(0, 10**12))
def test_it_only_grows_until_the_next_version(created: list[int], later: int) -> None:
    now = max(created)
    before, after = overdue(created, now), overdue(created, now + later)
    assert before == 0
    assert after is not None
    assert after >= 0
