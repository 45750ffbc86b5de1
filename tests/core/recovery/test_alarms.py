"""Losses and gradient norms that are not finite, or far above what is usual."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from platform_core.recovery.alarms import LEAST_VALUES, Alarm, Kind, Usual, observe


def after(values: list[float]) -> tuple[Usual, list[Alarm]]:
    usual, alarms = Usual(), []
    for value in values:
        usual, alarm = observe(usual, value)
        alarms += [alarm] if alarm else []
    return usual, alarms


def falling_loss(steps: int, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [0.5 + 4 * math.exp(-step / 80) + rng.gauss(0, 0.05) for step in range(steps)]


def test_a_loss_that_falls_with_noise_raises_no_alarm() -> None:
    for seed in range(20):
        assert after(falling_loss(500, seed))[1] == []


def test_a_spike_raises_an_alarm_with_its_limit() -> None:
    usual, _ = after(falling_loss(300))
    _, alarm = observe(usual, 40.0)
    assert alarm is not None
    assert alarm.kind is Kind.SPIKE
    assert alarm.sentence("loss", 1_300).startswith("loss is 40 at step 1,300; up to ")


def test_one_wild_value_does_not_hide_the_next() -> None:
    usual, alarms = after([*falling_loss(300), 1e9, 1e9])
    assert [alarm.kind for alarm in alarms] == [Kind.SPIKE] * 2
    assert usual.limit < 10


def test_what_is_not_finite_raises_an_alarm_from_the_first_value_on() -> None:
    for value in (math.nan, math.inf, -math.inf):
        usual, alarm = observe(Usual(), value)
        assert alarm is not None
        assert usual == Usual()
        assert alarm.sentence("grad_norm", 7) == "grad_norm is not finite at step 7"


@given(st.lists(st.floats(-1e9, 1e9), max_size=LEAST_VALUES))
def test_the_first_values_only_teach(values: list[float]) -> None:
    assert after(values)[1] == []


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60))
def test_the_estimate_stays_finite_whatever_comes(values: list[float]) -> None:
    small = [value if not math.isfinite(value) else max(-1e300, min(1e300, value)) for value in values]
    usual, _ = after(small)
    assert math.isfinite(usual.middle)
    assert usual.spread >= 0


@given(st.lists(st.floats(0.1, 10), min_size=LEAST_VALUES, max_size=60))
def test_a_value_far_beyond_all_before_always_alarms(values: list[float]) -> None:
    usual, _ = after(values)
    assert observe(usual, 1_000.0)[1] is not None
