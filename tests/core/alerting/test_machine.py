"""The life of an alert, in situations and over every sequence of values that Hypothesis finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.alerting.builtin import RULES
from platform_core.alerting.machine import TRANSITIONS, Alert, AlertState, Observation, advance
from platform_core.alerting.rules import Comparison, Condition, Rule, Severity

MINUTE = 60_000
CONDITION = Condition(
    "job.utilisation", Comparison.BELOW, 50, for_ms=5 * MINUTE, clear_at=60, clear_ms=2 * MINUTE
)
RULE = Rule(
    "idle", "Idle", CONDITION, Severity.WARNING, "{name}: {value}", "look", missing_after_ms=4 * MINUTE
)


def run(values: list[float | None], rule: Rule = RULE, every_ms: int = MINUTE) -> list[Alert | None]:
    alert: Alert | None = None
    seen = []
    for number, value in enumerate(values):
        if alert is not None and alert.is_over:
            alert = None
        alert = advance(rule, alert, Observation(number * every_ms, value))
        seen.append(alert)
    return seen


def states(values: list[float | None]) -> list[str | None]:
    return [alert.state.value if alert else None for alert in run(values)]


def test_it_fires_once_the_condition_has_held_for_long_enough() -> None:
    assert states([40] * 6) == ["pending"] * 5 + ["firing"]


def test_a_short_dip_leaves_nothing() -> None:
    assert states([40, 40, 55, 40]) == ["pending", "pending", None, "pending"]


def test_a_rule_without_a_duration_fires_at_once() -> None:
    rule = Rule("x", "X", Condition("job.utilisation", Comparison.BELOW, 50), Severity.WARNING, "", "")
    (alert,) = run([10], rule)
    assert alert is not None
    assert (alert.state, alert.fired_ms) == (AlertState.FIRING, 0)


def test_between_the_limit_and_the_clear_value_it_goes_on_firing() -> None:
    assert states([40] * 6 + [55] * 5)[-5:] == ["firing"] * 5


def test_it_resolves_once_it_has_been_clear_for_long_enough() -> None:
    assert states([40] * 6 + [70, 70, 70])[-3:] == ["firing", "firing", "resolved"]
    assert states([40] * 6 + [70, 55, 70, 70])[-1] == "firing", "it swung back in between"


def test_missing_data_is_a_state_of_its_own_and_resolves_nothing() -> None:
    seen = states([40] * 6 + [None] * 5)
    assert seen[-5:] == ["firing", "firing", "firing", "no_data", "no_data"]
    assert states([40] * 6 + [None] * 5 + [40])[-1] == "firing"
    assert states([40] * 6 + [None] * 5 + [70, 70, 70])[-1] == "resolved"


def test_a_pending_alert_without_data_is_dropped() -> None:
    assert states([40, None, None, None, None])[-2:] == ["pending", None]


def test_a_subject_that_is_gone_ends_its_alert() -> None:
    firing = run([40] * 6)[-1]
    ended = advance(RULE, firing, Observation(10 * MINUTE, None, exists=False))
    assert ended is not None
    assert ended.is_over
    pending = run([40])[-1]
    assert advance(RULE, pending, Observation(MINUTE, None, exists=False)) is None


def test_the_worst_value_is_kept() -> None:
    last = run([40, 10, 45])[-1]
    assert last is not None
    assert (last.value, last.worst) == (45, 10)


def test_a_resolved_alert_takes_no_more_observations() -> None:
    over = run([40] * 6 + [70] * 3)[-1]
    with pytest.raises(ValueError, match="a new one begins"):
        advance(RULE, over, Observation(0, 1.0))


VALUES = st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=60)


@given(VALUES)
def test_only_legal_transitions_whatever_the_values(values: list[float | None]) -> None:
    before: Alert | None = None
    for alert in run(values):
        if before is not None and not before.is_over and alert is not None:
            assert alert.state in TRANSITIONS[before.state]
        before = alert


@given(VALUES)
def test_it_never_fires_unless_every_value_of_the_duration_met_the_condition(
    values: list[float | None],
) -> None:
    for number, alert in enumerate(run(values)):
        if alert is not None and alert.state is AlertState.FIRING and alert.fired_ms == number * MINUTE:
            window = [value for value in values[number - 5 : number + 1] if value is not None]
            assert all(value < 50 for value in window)
            assert alert.fired_ms - alert.began_ms >= CONDITION.for_ms


@given(VALUES)
def test_it_never_resolves_while_the_value_is_not_clear(values: list[float | None]) -> None:
    for alert in run(values):
        if alert is not None and alert.is_over:
            assert alert.value >= 60
            assert alert.fired_ms is not None


@given(st.lists(st.floats(50, 59.99), min_size=1, max_size=20))
def test_a_value_inside_the_band_changes_nothing(values: list[float]) -> None:
    assert all(alert is None for alert in run(list(values)))
    assert states([40] * 6 + list(values))[-1] == "firing"


@given(VALUES, st.integers(1, 5))
def test_the_same_observation_twice_changes_nothing(values: list[float | None], repeated: int) -> None:
    alert: Alert | None = None
    for number, value in enumerate(values):
        if alert is not None and alert.is_over:
            alert = None
        seen = Observation(number * MINUTE, value)
        alert = advance(RULE, alert, seen)
        for _ in range(repeated):
            if alert is not None and not alert.is_over and alert.fired_ms != seen.at_ms:
                assert advance(RULE, alert, seen) == alert


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_built_in_rule_fires_and_resolves(rule: Rule) -> None:
    condition = rule.condition
    bad = condition.limit - 1 if condition.comparison is Comparison.BELOW else condition.limit + 1
    clear = condition.limit if condition.clear_at is None else condition.clear_at
    alert = advance(rule, None, Observation(0, bad))
    alert = advance(rule, alert, Observation(condition.for_ms, bad))
    assert alert is not None
    assert alert.state is AlertState.FIRING
    alert = advance(rule, alert, Observation(condition.for_ms + 1, clear))
    alert = advance(rule, alert, Observation(condition.for_ms + 1 + condition.clear_ms, clear))
    assert alert is not None
    assert alert.state is AlertState.RESOLVED
    assert "{" not in rule.says("bytelm", "vision", bad, "12 jobs wait")
    assert all(code in {other.code for other in RULES} for code in rule.inhibited_by)
