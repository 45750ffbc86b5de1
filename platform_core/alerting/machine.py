"""The life of an alert: pending, firing, without data, resolved. `advance` takes an observation, returns the alert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from platform_core.alerting.rules import Condition, Rule


class AlertState(StrEnum):
    PENDING = "pending"  # the condition is met, not for long enough
    FIRING = "firing"
    NO_DATA = "no_data"  # it fired, and its measure has had no value for a while: nobody knows
    RESOLVED = "resolved"


_P, _F, _N, _R = AlertState.PENDING, AlertState.FIRING, AlertState.NO_DATA, AlertState.RESOLVED
# From a state to those that may follow; a pending alert that does not fire is dropped without a trace.
TRANSITIONS: Mapping[AlertState, frozenset[AlertState]] = {
    _P: frozenset({_P, _F}),
    _F: frozenset({_F, _N, _R}),
    _N: frozenset({_N, _F, _R}),
    _R: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Observation:
    """The value of a measure for one subject. None: it has none; not `exists`: the subject has ended or is gone."""

    at_ms: int
    value: float | None
    exists: bool = True


@dataclass(frozen=True, slots=True)
class Alert:
    state: AlertState
    since_ms: int  # in this state
    began_ms: int  # when the condition was first met
    seen_ms: int  # when its measure last had a value
    value: float  # the last
    worst: float
    fired_ms: int | None = None
    clearing_ms: int | None = None  # since when it is on the good side

    @property
    def is_over(self) -> bool:
        return self.state is AlertState.RESOLVED


def advance(rule: Rule, alert: Alert | None, seen: Observation) -> Alert | None:
    """Returns the alert after an observation; None where there is nothing to keep.

    Raises ValueError for a resolved alert: the next one of its rule and subject is a new alert.
    """
    if alert is not None and alert.is_over:
        raise ValueError(f"the alert resolved at {alert.since_ms}; a new one begins without it")
    if not seen.exists:
        return _end(alert, seen.at_ms)
    if seen.value is None:
        return _without_value(rule, alert, seen.at_ms)
    if alert is None:
        return _begin(rule.condition, seen.at_ms, seen.value)
    return _with_value(rule.condition, alert, seen.at_ms, seen.value)


def _begin(condition: Condition, at_ms: int, value: float) -> Alert | None:
    if not condition.is_met(value):
        return None
    pending = Alert(AlertState.PENDING, at_ms, at_ms, at_ms, value, value)
    return pending if condition.for_ms else _move(pending, AlertState.FIRING, at_ms)


def _with_value(condition: Condition, alert: Alert, at_ms: int, value: float) -> Alert | None:
    is_worse = condition.comparison.holds(value, alert.worst)
    seen = replace(alert, seen_ms=at_ms, value=value, worst=value if is_worse else alert.worst)
    if alert.fired_ms is None:
        if not condition.is_met(value):
            return None
        return _move(seen, AlertState.FIRING, at_ms) if at_ms - alert.began_ms >= condition.for_ms else seen
    back = _move(seen, AlertState.FIRING, at_ms)
    if not condition.is_clear(value):
        return replace(back, clearing_ms=None)
    clearing_ms = at_ms if alert.clearing_ms is None else alert.clearing_ms
    if at_ms - clearing_ms >= condition.clear_ms:
        return _end(back, at_ms)
    return replace(back, clearing_ms=clearing_ms)


def _without_value(rule: Rule, alert: Alert | None, at_ms: int) -> Alert | None:
    if alert is None or at_ms - alert.seen_ms < rule.missing_after_ms:
        return alert
    if alert.fired_ms is None:
        return None
    return replace(_move(alert, AlertState.NO_DATA, at_ms), clearing_ms=None)


def _end(alert: Alert | None, at_ms: int) -> Alert | None:
    return None if alert is None or alert.fired_ms is None else _move(alert, AlertState.RESOLVED, at_ms)


def _move(alert: Alert, state: AlertState, at_ms: int) -> Alert:
    if state not in TRANSITIONS[alert.state]:
        raise ValueError(f"an alert that is {alert.state} cannot be {state}")
    if state is alert.state:
        return alert
    fired_ms = at_ms if state is AlertState.FIRING and alert.fired_ms is None else alert.fired_ms
    return replace(alert, state=state, since_ms=at_ms, fired_ms=fired_ms)
