"""A cycle begins when a condition has held for long enough, and never beyond the limits."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from platform_core.retraining import policy as policies
from platform_core.retraining.policy import RetrainingPolicy
from platform_core.retraining.triggers import (
    WEEK_MS,
    Begin,
    History,
    Hold,
    Reading,
    Trigger,
    Watched,
    due,
    observe,
)
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS

NOW = 1_000 * DAY_MS
CALM = Reading("mv-1", NOW - DAY_MS, drifted=(), decay=0.95)
DRIFTED = Reading("mv-1", NOW - DAY_MS, drifted=("input.age", "output"))


def policy(**fields: Any) -> RetrainingPolicy:
    return policies.parse({"endpoint": "mlp", "drift": True, "for_minutes": 10, **fields})


def after(
    asked: RetrainingPolicy, readings: list[tuple[int, Reading]], history: History = History()
) -> Begin | Hold:
    """What is said after these readings, each with its minute."""
    watched = Watched()
    for minute, reading in readings:
        watched = observe(watched, asked, reading, NOW + minute * MINUTE_MS)
    last, reading = readings[-1]
    return due(asked, watched, reading, history, NOW + last * MINUTE_MS)


def test_drift_that_lasts_begins_a_cycle_with_what_drifted() -> None:
    assert after(policy(), [(0, DRIFTED), (9, DRIFTED)]) == Hold()
    assert after(policy(), [(0, DRIFTED), (5, DRIFTED), (10, DRIFTED)]) == Begin(
        Trigger.DRIFT, "features input.age, output drifted for 10 min"
    )


def test_drift_with_a_break_begins_anew_and_a_missing_look_is_no_break() -> None:
    silent = Reading("mv-1", NOW - DAY_MS)
    assert after(policy(), [(0, DRIFTED), (5, CALM), (6, DRIFTED), (11, DRIFTED)]) == Hold()
    assert isinstance(after(policy(), [(0, DRIFTED), (5, silent), (11, DRIFTED)]), Begin)


def test_another_version_in_production_begins_anew() -> None:
    other = Reading("mv-2", NOW, drifted=("output",))
    assert after(policy(), [(0, DRIFTED), (11, other)]) == Hold()


def test_a_metric_beyond_its_bound_is_a_decay() -> None:
    asked = policy(drift=False, decay_metric="accuracy", decay_bound=0.9)
    worse = Reading("mv-1", NOW - DAY_MS, decay=0.8)
    assert after(asked, [(0, CALM), (20, CALM)]) == Hold()
    assert after(asked, [(0, worse), (20, worse)]) == Begin(
        Trigger.DECAY, "accuracy is 0.8 and it must be at least 0.9, for 20 min"
    )
    lower = policy(drift=False, decay_metric="error", decay_bound=2, decay_direction="lower")
    assert after(lower, [(0, worse), (20, worse)]) == Hold()


def test_age_needs_no_time() -> None:
    asked = policy(drift=False, max_age_days=30)
    old = Reading("mv-1", NOW - 31 * DAY_MS)
    assert after(asked, [(0, CALM)]) == Hold()
    begun = after(asked, [(0, old)])
    assert begun == Begin(Trigger.AGE, "the version in production is 31 d old; 30 days are allowed")


def test_a_policy_that_is_switched_off_asks_for_nothing() -> None:
    assert after(policy(enabled=False), [(0, DRIFTED), (11, DRIFTED)]) == Hold()


def test_every_limit_is_said_with_its_numbers() -> None:
    now = NOW + 11 * MINUTE_MS
    history = History(
        begun_ms=(now - HOUR_MS, now - DAY_MS, now - 2 * DAY_MS), spent_ms=20 * HOUR_MS, next_ms=8 * HOUR_MS,
        new_data=False, open=True,
    )  # fmt: skip
    held = after(policy(needs_new_data=True), [(0, DRIFTED), (11, DRIFTED)], history)
    assert held == Hold(
        (
            "a cycle is under way",
            "the last cycle began 1 h ago; 24 h must be between two beginnings",
            "3 cycles began in the last 7 days; at most 3 may",
            "20 GPU-hours were spent in the last 7 days and the next job may need 8; the budget is 24",
            "there is no newer version of its dataset",
        ),
        Trigger.DRIFT,
        "features input.age, output drifted for 11 min",
    )


@given(
    st.integers(1, 72), st.integers(1, 5), st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 40), st.booleans(), st.integers(1, 10)), min_size=1, max_size=80),
)  # fmt: skip
def test_no_week_has_more_cycles_or_gpu_hours_than_allowed(
    interval: int, cycles: int, budget: int, rounds: list[tuple[int, bool, int]]
) -> None:
    asked = policy(
        min_interval_hours=interval, max_cycles_a_week=cycles, gpu_hours_a_week=budget, for_minutes=0
    )
    now, watched = NOW, Watched()
    begun: list[tuple[int, int]] = []  # when, GPU time of its job
    for hours, drifts, needs in rounds:
        now += hours * HOUR_MS
        reading = Reading("mv-1", NOW, drifted=("output",) if drifts else ())
        watched = observe(watched, asked, reading, now)
        spent = sum(cost for at, cost in begun if at > now - WEEK_MS)
        history = History(tuple(at for at, _ in begun), spent, needs * HOUR_MS)
        decision = due(asked, watched, reading, history, now)
        if isinstance(decision, Begin):
            assert drifts
            begun.append((now, needs * HOUR_MS))
        week = [cost for at, cost in begun if at > now - WEEK_MS]
        assert len(week) <= cycles
        assert sum(week) <= budget * HOUR_MS
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(begun)]
    assert all(gap >= interval * HOUR_MS for gap in gaps)
