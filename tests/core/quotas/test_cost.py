from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from platform_core.quotas.cost import cost_micro_dollars

HOUR_MS = 3_600_000
DOLLARS = 1_000_000


def test_four_gpus_for_ninety_minutes_cost_six_gpu_hours():
    assert cost_micro_dollars(90 * 60_000, 4, 2_450_000) == 14_700_000


def test_half_a_micro_dollar_is_rounded_up_and_less_down():
    assert cost_micro_dollars(HOUR_MS // 2, 1, 1) == 1
    assert cost_micro_dollars(HOUR_MS // 2 - 1, 1, 1) == 0


@given(st.integers(0, 10**12), st.integers(0, 10_000), st.integers(0, 100 * DOLLARS))
def test_the_cost_is_never_more_than_half_a_micro_dollar_off(ms: int, slots: int, price: int):
    exact = Fraction(ms * slots * price, HOUR_MS)
    assert abs(cost_micro_dollars(ms, slots, price) - exact) <= Fraction(1, 2)
