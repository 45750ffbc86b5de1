"""Objectives, what counts for the first step, and availability by probes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.service_levels import availability
from platform_core.service_levels.budget import Counts
from platform_core.service_levels.first_steps import Judgement, Start, counts, judge
from platform_core.service_levels.objectives import BY_CODE, OBJECTIVES, changed, percent
from platform_core.units import HOUR_MS, MINUTE_MS

LIMIT = 5 * MINUTE_MS
MOMENTS = st.integers(0, 10 * LIMIT)
MAYBE = st.none() | MOMENTS


def test_each_objective_has_one_code_and_a_sentence() -> None:
    assert len(BY_CODE) == len(OBJECTIVES)
    for objective in OBJECTIVES:
        assert objective.sentence.endswith(".")
        assert "{" not in objective.sentence
        assert (objective.limit_ms is not None) == ("{limit}" in objective.meaning)


def test_a_target_and_a_limit_can_be_changed() -> None:
    strict = changed(BY_CODE["first_step_small"], 0.99, 2 * MINUTE_MS)
    assert (strict.target, strict.limit_ms) == (0.99, 2 * MINUTE_MS)
    assert "within 2 min" in strict.sentence
    assert changed(strict, None, None) == strict


@pytest.mark.parametrize(
    ("code", "target", "limit_ms", "sentence"),
    [
        ("recovery", 1.0, None, "the target 100 % is not between 50 % and 99.999 %"),
        ("recovery", 0.4, None, "the target 40 % is not between"),
        ("recovery", 0.9, LIMIT, "recovery has no limit that can be changed"),
        ("api_latency", None, LIMIT, "api_latency has no limit that can be changed"),
        ("recovery_time", None, 10, "the limit 10 ms is not between 1 s and 7 d"),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    code: str, target: float | None, limit_ms: int | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        changed(BY_CODE[code], target, limit_ms)


@pytest.mark.parametrize(("share", "words"), [(0.7, "70 %"), (0.999, "99.9 %"), (0.99999, "99.999 %")])
def test_a_share_is_told_from_all(share: float, words: str) -> None:
    assert percent(share) == words


@pytest.mark.parametrize(
    ("start", "judgement"),
    [
        (Start(1, 100, 200, 300), Judgement(300, True)),
        (Start(1, 100, 200, 100 + LIMIT), Judgement(100 + LIMIT, True)),
        (Start(1, 100, 200, 101 + LIMIT), Judgement(100 + LIMIT, False)),
        (Start(1, 100, 200, 90), Judgement(100, True)),  # the node's clock is behind
        (Start(1, 100), Judgement(100 + LIMIT, False)),  # it waits still
        (Start(1, 100, finished_ms=200), None),  # cancelled in time
        (Start(1, 100, finished_ms=101 + LIMIT), Judgement(100 + LIMIT, False)),  # cancelled too late
        (Start(1, 100, 200), None),  # it started in time and tells no steps
        (Start(1, 100, 101 + LIMIT), Judgement(100 + LIMIT, False)),
    ],
)
def test_a_job_is_judged_once_its_limit_decides(start: Start, judgement: Judgement | None) -> None:
    assert judge(start, LIMIT) == judgement


@given(st.lists(st.builds(Start, st.just(1), MOMENTS, MAYBE, MAYBE, MAYBE)), MOMENTS)
def test_a_job_counts_in_one_period_alone(starts: list[Start], between: int) -> None:
    end = 100 * LIMIT
    halves = counts(starts, LIMIT, 0, between) + counts(starts, LIMIT, between, end)
    assert halves == counts(starts, LIMIT, 0, end)


@given(st.builds(Start, st.just(1), MOMENTS, MAYBE, MAYBE, MAYBE))
def test_a_longer_limit_spoils_nothing(start: Start) -> None:
    strict, mild = judge(start, LIMIT), judge(start, 2 * LIMIT)
    if strict is not None and strict.good:
        assert mild == strict


def test_a_minute_without_a_probe_is_an_outage() -> None:
    assert availability.counts(50, 0, 0, HOUR_MS) == Counts(50, 60)


def test_nothing_is_said_of_the_time_before_the_first_probe() -> None:
    assert availability.counts(30, 30 * MINUTE_MS, 0, HOUR_MS) == Counts(30, 30)
    assert availability.counts(0, None, 0, HOUR_MS) == Counts()
    assert availability.counts(0, 2 * HOUR_MS, 0, HOUR_MS) == Counts()


def test_a_minute_that_is_not_over_does_not_count() -> None:
    assert availability.counts(60, 0, 0, HOUR_MS + MINUTE_MS - 1) == Counts(60, 60)


@given(st.integers(0, 10_000), MAYBE, MOMENTS, MOMENTS)
def test_availability_is_a_share(up: int, first: int | None, begin: int, end: int) -> None:
    found = availability.counts(up, first, begin, end)
    assert 0 <= found.good <= found.total
