"""One constant a cluster."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.parallelism.calibration import (
    ENOUGH,
    EXACT,
    Calibration,
    apart,
    calibrate,
    errors,
    errors_leave_one_out,
    learn,
)

SECONDS = st.floats(0.1, 100.0)


def test_the_constant_is_the_median_ratio_that_one_bad_row_does_not_move() -> None:
    calibration = calibrate([(1.0, 1.1), (2.0, 2.2), (3.0, 3.3), (1.0, 9.0)])
    assert calibration.factor == pytest.approx(1.1)
    assert calibration.rows == 4
    assert calibration.low == pytest.approx(1.0)
    assert calibration.high > 1.0


def test_nothing_measured_leaves_the_prediction_and_a_wide_band() -> None:
    assert calibrate([]) == Calibration(1.0, 0.9, 1.5, 0)
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


@pytest.mark.parametrize(
    ("ratio", "words"), [(0.5, "-50 %"), (1.05, "+5 %"), (9.9, "+890 %"), (1073.4, "1,073 times as long")]
)
def test_two_times_are_apart_by_percents_or_by_many_times(ratio: float, words: str) -> None:
    assert apart(ratio) == words


def test_a_few_jobs_teach_nothing_yet() -> None:
    learnt = learn([(1.0, 2.0)] * (ENOUGH - 1))
    assert learnt == Calibration(rows=ENOUGH - 1)
    assert not learnt.is_learnt
    assert "4 jobs of 5 measured here" in learnt.sentence
    assert "no job measured here" in Calibration().sentence


def test_the_sentence_names_the_constant_and_the_band() -> None:
    sentence = learn([(1.0, 1.2)] * 30).sentence
    assert sentence == "predictions times 1.20, learnt from 30 jobs here; nine of ten within +0 % to +0 %"


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=ENOUGH, max_size=EXACT - 1))
def test_before_the_band_is_exact_it_is_at_least_that_of_the_published_figures(
    steps: list[tuple[float, float]],
) -> None:
    learnt = learn(steps)
    assert learnt.low <= Calibration().low
    assert learnt.high >= Calibration().high


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=EXACT, max_size=80))
def test_nine_of_ten_of_the_jobs_seen_lie_in_the_band(steps: list[tuple[float, float]]) -> None:
    learnt = learn(steps)
    ratios = [took / guessed / learnt.factor for guessed, took in steps]
    outside = sum(not learnt.low <= ratio <= learnt.high for ratio in ratios)
    assert outside <= (len(steps) + 1) / 10


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=ENOUGH, max_size=40), st.floats(0.1, 10.0))
def test_a_planner_that_is_wrong_by_a_constant_is_calibrated_to_the_same_seconds(
    steps: list[tuple[float, float]], wrong: float
) -> None:
    right, scaled = learn(steps), learn([(guessed * wrong, took) for guessed, took in steps])
    assert scaled.factor * wrong == pytest.approx(right.factor)
    assert (scaled.low, scaled.high) == pytest.approx((right.low, right.high))


@given(st.lists(st.floats(0.8, 1.2), min_size=ENOUGH, max_size=60), st.floats(1e-3, 1e3))
def test_one_broken_job_does_not_move_the_constant_out_of_the_others(
    ratios: list[float], broken: float
) -> None:
    assert 0.8 <= learn([*((1.0, ratio) for ratio in ratios), (1.0, broken)]).factor <= 1.2
