"""Drift: what chance does is no alarm, what moved is one, and the slice that moved is named."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.drift import distances
from platform_core.drift.detection import Row, judge, judge_against

CHANCE = np.random.default_rng(7)


def rows(count: int, *, shift: float = 0.0, german: float = 0.0) -> list[Row]:
    languages = CHANCE.choice(["de", "en"], count)
    lengths = CHANCE.normal(shift, 1.0, count) + np.where(languages == "de", german, 0.0)
    topics = CHANCE.choice(["news", "code", "chat"], count, p=[0.5, 0.3, 0.2])
    columns = zip(
        languages.tolist(),
        lengths.tolist(),
        topics.tolist(),
        CHANCE.normal(size=(count, 4)).tolist(),
        strict=True,
    )
    return [
        Row({"length": length, "topic": topic, "embedding": tuple(embedding)}, (f"language = {language}",))
        for language, length, topic, embedding in columns
    ]


def test_windows_without_drift_alarm_in_at_most_one_of_a_hundred() -> None:
    reference = rows(1_000)
    alarms = sum(any(finding.moved for finding in judge(reference, rows(200))) for _ in range(100))
    assert alarms <= 3  # 0.5 % are allowed; four or more of 100 have a chance of 1 in 600 then


@pytest.mark.parametrize("test", ["kolmogorov_smirnov", "population_stability", "jensen_shannon"])
def test_the_limit_is_passed_as_often_as_it_says(test: str) -> None:
    measure = getattr(distances, test)
    passed = sum(measure(CHANCE.normal(size=600), CHANCE.normal(size=300), 0.05).moved for _ in range(1_000))
    assert passed <= 85  # 50 expected; the deviation is 7


def test_a_shift_of_half_a_deviation_is_found_in_200_rows() -> None:
    first = judge(rows(2_000), rows(200, shift=0.5))[0]
    assert first.moved
    assert first.feature == "length"


def test_a_shift_of_one_slice_names_the_slice() -> None:
    moved = [finding for finding in judge(rows(2_000), rows(400, german=1.0)) if finding.moved]
    assert {finding.slice for finding in moved} <= {"", "language = de"}
    assert moved[0].slice == "language = de"


def test_new_categories_and_missing_numbers_are_drift() -> None:
    reference = [Row({"kind": "a", "size": float(CHANCE.normal())}) for _ in range(500)]
    window = [Row({"kind": "b", "size": math.nan if number % 3 else 1.0}) for number in range(300)]
    moved = {(finding.feature, finding.test) for finding in judge(reference, window) if finding.moved}
    assert {("kind", "categories"), ("size", "missing")} <= moved


def test_a_shift_of_embeddings_is_found() -> None:
    reference = [Row({"e": tuple(CHANCE.normal(size=8).tolist())}) for _ in range(500)]
    window = [Row({"e": tuple(CHANCE.normal(0.4, size=8).tolist())}) for _ in range(200)]
    [finding] = judge(reference, window)
    assert finding.moved
    assert finding.test == "embedding"


def test_fewer_than_fifty_values_say_nothing() -> None:
    assert judge(rows(500), rows(49)) == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=50, max_size=120),
    st.lists(st.floats(-1e6, 1e6), min_size=50, max_size=120),
)
def test_distances_are_finite_and_zero_for_equal_values(first: list[float], second: list[float]) -> None:
    for test in (distances.kolmogorov_smirnov, distances.population_stability, distances.jensen_shannon):
        for window, exact in ((second, False), (first, True)):
            measured = test(first, window, 0.01)
            assert math.isfinite(measured.value)
            assert measured.value == pytest.approx(0, abs=1e-9) if exact else measured.value >= 0


def test_references_are_judged_apart_and_share_their_false_alarms() -> None:
    window = rows(300, shift=0.6)
    found = judge_against({"training": rows(500), "last week": rows(500, shift=0.6)}, window)
    assert {(one.against, one.feature) for one in found if one.moved} == {("training", "length")}
    alone = {(one.feature, one.slice, one.test): one.limit for one in judge(rows(500), window)}
    for one in found:
        assert one.limit >= alone[one.feature, one.slice, one.test] * 0.9
    alarms = sum(
        any(one.moved for one in judge_against({"a": rows(500), "b": rows(500), "c": rows(500)}, rows(200)))
        for _ in range(100)
    )
    assert alarms <= 3


@pytest.mark.parametrize("size", [60, 200, 1_000])
def test_the_limit_narrows_with_the_samples(size: int) -> None:
    one, larger = (
        distances.kolmogorov_smirnov([0.0, 1.0] * 500, [0.0, 1.0] * (n // 2), 0.01) for n in (size, 2 * size)
    )
    assert larger.limit < one.limit
