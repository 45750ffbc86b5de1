import math
import sys

from hypothesis import example, given
from hypothesis import strategies as st

from platform_core.experiments.groups import Band, band, common

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_what_is_not_finite_or_not_there_does_not_count() -> None:
    assert band([1.0, None, math.nan, 3.0, math.inf]) == Band(2.0, 1.0, 3.0, 2)
    assert band([None, math.nan]) is None
    assert band([]) is None


@given(st.lists(FINITE, min_size=1, max_size=20))
@example([sys.float_info.max] * 6)
def test_the_mean_lies_between_the_least_and_the_greatest(values: list[float]) -> None:
    found = band(values)
    assert found is not None
    assert found.low <= found.mean <= found.high


def test_a_value_is_common_only_if_all_have_it() -> None:
    assert common(["adam", "adam"]) == "adam"
    assert common(["adam", None]) is None
    assert common([]) is None
