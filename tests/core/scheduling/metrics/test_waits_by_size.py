from hypothesis import given
from hypothesis import strategies as st

from platform_core.scheduling.metrics.waits_by_size import Waits, by_size, percentile


def test_each_size_has_its_own_waits():
    waits = [(1, 10), (1, 30), (1, 20), (8, 5), (500, 7)]
    assert by_size(waits) == (
        Waits("1", 3, 20, 30, 30),
        Waits("2 to 8", 1, 5, 5, 5),
        Waits("over 64", 1, 7, 7, 7),
    )
    assert by_size([]) == ()


@given(st.lists(st.integers(0, 9), min_size=1).map(sorted), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values: list[int], percent: int):
    found = percentile(values, percent)
    assert 100 * sum(value <= found for value in values) >= percent * len(values)
    assert 100 * sum(value < found for value in values) < percent * len(values)
