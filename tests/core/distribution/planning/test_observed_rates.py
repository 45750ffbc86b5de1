"""What deployments tell of the line: by bytes, from those that lasted, within the link."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from platform_core.distribution.planning.observed_rates import MOST_FIXED_MS, Basis, Passed, observed

LINK = 1_250_000_000
SMALL = Passed(3_000, 46)
LARGE = Passed(100 << 30, 200_000)
PASSED = st.builds(Passed, st.integers(0, 1 << 40), st.integers(0, 10**9))


def test_small_deployments_do_not_move_the_rate_of_a_large_one() -> None:
    alone, beside = observed([LARGE], LINK), observed([SMALL] * 19 + [LARGE], LINK)
    assert (beside.low, beside.likely, beside.high) == (alone.low, alone.likely, alone.high)
    assert (beside.basis, beside.deployments) == (Basis.MEASURED, 1)


def test_where_only_small_ones_came_the_link_counts_and_says_so() -> None:
    rates = observed([SMALL] * 3, LINK)
    assert (rates.likely, rates.basis, rates.deployments) == (LINK, Basis.LINK, 0)
    assert rates.low < rates.likely
    assert rates.fixed_ms == 46


def test_a_large_one_counts_by_its_bytes() -> None:
    slow = Passed(1 << 30, 100_000)
    rates = observed([LARGE, slow, slow], LINK)
    assert rates.likely > 0.5 * LARGE.rate


def test_a_small_one_that_was_held_up_is_no_measure_of_the_line() -> None:
    assert observed([Passed(3_000, 600_000), LARGE], LINK).likely == observed([LARGE], LINK).likely


@given(st.lists(PASSED, max_size=30), st.integers(1, 10**12))
def test_low_is_at_most_likely_at_most_high_within_the_link(passed: list[Passed], link: int) -> None:
    rates = observed(passed, link)
    assert 1 <= rates.low <= rates.likely <= rates.high <= link
    assert 0 <= rates.fixed_ms <= MOST_FIXED_MS
    assert (rates.basis is Basis.MEASURED) == (rates.deployments > 0)


@example([Passed(4 << 30, 0)], [])  # within the same millisecond
@given(
    st.lists(PASSED, max_size=20), st.lists(st.builds(Passed, st.integers(0, 1 << 20), st.integers(0, 10**9)))
)
def test_nothing_small_counts(passed: list[Passed], small: list[Passed]) -> None:
    one, other = observed(passed, LINK), observed([*small, *passed], LINK)
    assert (one.low, one.likely, one.high, one.deployments) == (
        other.low,
        other.likely,
        other.high,
        other.deployments,
    )
