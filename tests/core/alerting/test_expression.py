"""Conditions in words, their sentences, and previews over the past."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.alerting.builtin import BY_CODE, RULES
from platform_core.alerting.expression import ExpressionError, parse, text_of
from platform_core.alerting.measures import MEASURES
from platform_core.alerting.pace import slowdown_percent
from platform_core.alerting.preview import would_have_fired
from platform_core.alerting.rules import Comparison, Condition

MINUTE = 60_000


def test_a_condition_is_read_with_its_units() -> None:
    found = parse("team.queue_wait > 2h for 10m clear 90m")
    assert found == Condition("team.queue_wait", Comparison.ABOVE, 120 * MINUTE, 10 * MINUTE, 90 * MINUTE)
    assert found.words == "above 2 h for 10 min"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a condition"),
        ("job.utilisation = 5", "is not a condition"),
        ("job.speed < 5", "there is no measure job.speed"),
        ("job.utilisation < 5 for 10", "has no unit"),
        ("job.utilisation < 5m", "is a duration"),
        ("team.queue_wait > 2", "has no unit"),
        ("job.utilisation < 50 clear 40", "must be above the limit"),
        ("team.storage > 90 clear 95", "must be below the limit"),
    ],
)
def test_a_condition_that_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(ExpressionError, match=why):
        parse(text)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_built_in_condition_is_written_as_it_is_read(rule: object) -> None:
    assert parse(text_of(rule.condition)) == rule.condition  # type: ignore[attr-defined]


@given(
    st.sampled_from(sorted(MEASURES)),
    st.sampled_from(Comparison),
    st.integers(0, 10**6),
    st.integers(0, 1000),
)
def test_every_condition_survives_being_written(
    name: str, sign: Comparison, limit: int, minutes: int
) -> None:
    scale = 1000 if MEASURES[name].unit.value == "milliseconds" else 1
    condition = Condition(name, sign, float(limit * scale), minutes * MINUTE)
    assert parse(text_of(condition)) == condition


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse(text)


def test_a_preview_finds_what_would_have_fired() -> None:
    rule = BY_CODE["job_underused"]
    values = [90.0] * 5 + [20.0] * 10 + [95.0] * 5
    samples = [(number * MINUTE, value) for number, value in enumerate(values)]
    (firing,) = would_have_fired(rule, "job-1", samples, 20 * MINUTE)
    assert (firing.fired_ms, firing.resolved_ms, firing.worst) == (10 * MINUTE, 16 * MINUTE, 20)


def test_a_preview_ends_what_has_no_more_samples() -> None:
    rule = BY_CODE["job_underused"]
    samples = [(number * MINUTE, 20.0) for number in range(10)]
    (firing,) = would_have_fired(rule, "job-1", samples, 60 * MINUTE)
    assert firing.resolved_ms == 9 * MINUTE
    (still,) = would_have_fired(rule, "job-1", samples, 10 * MINUTE)
    assert still.resolved_ms is None


def test_the_pace_is_that_of_the_last_minutes() -> None:
    points = [(0, 0), (3 * MINUTE, 300)]
    assert slowdown_percent(points, 4 * MINUTE, 2.5) == pytest.approx(50)
    assert slowdown_percent(points, 4 * MINUTE, 0.5) == 0
    assert slowdown_percent([(0, 300), (3 * MINUTE, 300)], 4 * MINUTE, 2.5) == 100
    assert slowdown_percent(points, MINUTE, 2.5) is None, "too short"
    assert slowdown_percent(points, 4 * MINUTE, None) is None
    assert slowdown_percent([], 4 * MINUTE, 1.0) is None
