"""One constant a cluster."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.parallelism.calibration import Calibration, calibrate, errors, errors_leave_one_out

SECONDS = st.floats(0.1, 100.0)


def test_the_constant_is_the_median_ratio_that_one_bad_row_does_not_move() -> None:
    calibration = calibrate([(1.0, 1.1), (2.0, 2.2), (3.0, 3.3), (1.0, 9.0)])
    assert calibration.factor == pytest.approx(1.1)
    assert calibration.rows == 4
    assert calibration.low == pytest.approx(1.0)
    assert calibration.high > 1.0


def test_nothing_measured_leaves_the_prediction_and_a_wide_band() -> None:
    assert calibrate([]) == Calibration(1.0, 0.9, 1.2, 0)
    assert calibrate([(1.0, 1.3)]).factor == pytest.approx(1.3)
    assert errors_leave_one_out([(1.0, 2.0)]) == [-0.5]


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=12))
def test_leaving_one_out_calibrates_on_all_the_others(steps: list[tuple[float, float]]) -> None:
    expected = []
    for at, (predicted, measured) in enumerate(steps):
        others = [took / guessed for guessed, took in steps[:at] + steps[at + 1 :]]
        expected.append(predicted * median(others) / measured - 1)
    assert errors_leave_one_out(steps) == pytest.approx(expected)


def test_errors_are_shares_of_what_was_measured() -> None:
    assert errors([(1.1, 1.0), (0.5, 1.0)]) == pytest.approx([0.1, -0.5])
