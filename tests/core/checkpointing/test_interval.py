from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.checkpointing.interval import advise, daly, waste, young

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def test_youngs_formula_on_a_case_done_by_hand():
    # sqrt(2 * 2 min * 100 min) = 20 min
    assert young(2 * MINUTE_MS, 100 * MINUTE_MS) == pytest.approx(20 * MINUTE_MS)


def test_dalys_formula_on_a_case_done_by_hand():
    # C/2M = 1/100: 20 min * (1 + 1/30 + 1/900) - 2 min
    assert daly(2 * MINUTE_MS, 100 * MINUTE_MS) == pytest.approx(
        (20 * (1 + 1 / 30 + 1 / 900) - 2) * MINUTE_MS
    )


def test_where_saving_takes_longer_than_two_failures_the_interval_is_one():
    assert daly(10 * MINUTE_MS, 5 * MINUTE_MS) == 5 * MINUTE_MS


@given(st.integers(100, 10 * MINUTE_MS), st.integers(HOUR_MS, 10_000 * HOUR_MS))
def test_no_interval_wastes_much_less_than_dalys(save_ms: int, mtbf_ms: int):
    """The exact optimum has no closed form; Daly's is within half a percent of wall time of every other choice."""
    advised = waste(daly(save_ms, mtbf_ms), save_ms, mtbf_ms)
    for factor in (0.25, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 4.0):
        assert advised <= waste(factor * daly(save_ms, mtbf_ms), save_ms, mtbf_ms) + 0.005


def test_more_nodes_fail_more_often_and_save_more_often():
    few = advise(MINUTE_MS, 5_000 * HOUR_MS, nodes=1)
    many = advise(MINUTE_MS, 5_000 * HOUR_MS, nodes=100)
    assert many.interval_ms < few.interval_ms
    assert many.waste > few.waste
    told = "save every 1 h 16 min: a save takes 1 min, one of 100 nodes fails about every 2 d 2 h; "
    assert many.sentence.startswith(told)


def test_a_gang_that_fails_faster_than_it_saves_wastes_all_its_time():
    assert waste(1_000, 10_000_000, 1_000) == 1.0


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_times_and_nodes_must_be_more_than_nothing(numbers: tuple[int, int, int]):
    with pytest.raises(ValueError, match="must be more than 0"):
        advise(*numbers)
