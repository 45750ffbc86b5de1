"""Conditions in words: `job.utilisation < 50 for 30m clear 60`. Durations have a unit, s, m, h or d."""

from __future__ import annotations

import re

from platform_core.alerting.measures import MEASURES, Unit
from platform_core.alerting.rules import Comparison, Condition
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_UNITS = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_VALUE = rf"({_NUMBER})([smhd]?)"
_EXPRESSION = re.compile(
    rf"\s*([a-z_.]+)\s*([<>])\s*{_VALUE}(?:\s+for\s+{_VALUE})?(?:\s+clear\s+{_VALUE})?\s*", re.ASCII
)
EXAMPLE = "job.utilisation < 50 for 30m clear 60"


class ExpressionError(ValueError):
    """Says what is wrong with an expression, and what could be written."""


def parse(text: str) -> Condition:
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise ExpressionError(f"{text[:80]!r} is not a condition; write one such as {EXAMPLE!r}")
    name, sign, limit, limit_unit, lasting, lasting_unit, clear, clear_unit = match.groups()
    measure = MEASURES.get(name)
    if measure is None:
        raise ExpressionError(f"there is no measure {name}; there are {', '.join(sorted(MEASURES))}")
    if lasting is not None and not lasting_unit:
        raise ExpressionError(
            f"`for {lasting}` has no unit; write {lasting}s, {lasting}m, {lasting}h or {lasting}d"
        )
    clear_at = None if clear is None else _value(clear, clear_unit, measure.unit)
    try:
        return Condition(
            name, Comparison(sign), _value(limit, limit_unit, measure.unit),
            for_ms=0 if lasting is None else round(float(lasting) * _UNITS[lasting_unit]), clear_at=clear_at,
        )  # fmt: skip
    except ValueError as error:
        raise ExpressionError(str(error)) from error


def text_of(condition: Condition) -> str:
    """Returns an expression that parses to this condition."""
    unit = condition.of.unit
    parts = [condition.measure, condition.comparison.value, _written(condition.limit, unit)]
    if condition.for_ms:
        parts += ["for", _written(condition.for_ms, Unit.MILLISECONDS)]
    if condition.clear_at is not None:
        parts += ["clear", _written(condition.clear_at, unit)]
    return " ".join(parts)


def _value(number: str, unit: str, of: Unit) -> float:
    if of is Unit.MILLISECONDS:
        if not unit:
            raise ExpressionError(f"{number} has no unit; this measure is a duration, such as 2h or 30s")
        return float(number) * _UNITS[unit]
    if unit:
        raise ExpressionError(f"{number}{unit} is a duration; this measure is in {of.value}: write {number}")
    return float(number)


def _written(value: float, unit: Unit) -> str:
    if unit is not Unit.MILLISECONDS:
        return _decimal(value)
    letter, size = next(
        ((letter, size) for letter, size in reversed(_UNITS.items()) if value and value % size == 0),
        ("s", SECOND_MS),
    )
    return f"{_decimal(value / size)}{letter}"


def _decimal(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
