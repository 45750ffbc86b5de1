"""Whether a run matches a filter: what the translation to SQL is tested against."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from platform_core.experiments.search.fields import FieldKind
from platform_core.experiments.search.filters import (
    PATTERNS,
    AllOf,
    AnyOf,
    Comparison,
    Filter,
    Operator,
    Scalar,
)
from platform_core.experiments.search.like import like

# Texts that count as numbers where a parameter is compared with a number; within what a double can hold.
NUMERIC = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?", re.ASCII)
_ORDERED: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: eq,
    Operator.UNEQUAL: ne,
    Operator.LESS: lt,
    Operator.AT_MOST: le,
    Operator.GREATER: gt,
    Operator.AT_LEAST: ge,
}


@dataclass(frozen=True, slots=True)
class RunValues:
    """What a filter sees of a run. An attribute that the run lacks is None or left out."""

    metrics: Mapping[str, float] = field(default_factory=dict)  # the last value of each
    lowest: Mapping[str, float] = field(default_factory=dict)  # of the finite values
    highest: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    datasets: Sequence[Mapping[str, str]] = ()


def matches(filter: Filter, run: RunValues) -> bool:
    match filter:
        case AllOf(parts):
            return all(matches(part, run) for part in parts)
        case AnyOf(parts):
            return any(matches(part, run) for part in parts)
    values = [value for value in _values(filter, run) if value is not None]
    if filter.operator is Operator.IS_NULL:
        return not values
    if filter.operator is Operator.IS_NOT_NULL:
        return bool(values)
    return any(_compare(filter, value) for value in values)


def _values(comparison: Comparison, run: RunValues) -> list[Any]:
    """The values of the field; a run has several datasets."""
    name = comparison.field.name
    match comparison.field.kind:
        case FieldKind.METRIC:
            return [run.metrics.get(name)]
        case FieldKind.LOWEST:
            return [run.lowest.get(name)]
        case FieldKind.HIGHEST:
            return [run.highest.get(name)]
        case FieldKind.PARAMETER:
            return [run.parameters.get(name)]
        case FieldKind.TAG:
            return [run.tags.get(name)]
        case FieldKind.DATASET:
            return [dataset.get(name) for dataset in run.datasets]
    return [
        run.attributes.get(name) or None if name in ("group", "owner", "user") else run.attributes.get(name)
    ]


def _compare(comparison: Comparison, value: Any) -> bool:
    """NaN differs from every number, and compares with none."""
    if isinstance(value, float) and math.isnan(value):
        return comparison.operator in (Operator.UNEQUAL, Operator.NOT_IN)
    operator, others = comparison.operator, comparison.values
    if operator in PATTERNS:
        return isinstance(value, str) and like(value, str(others[0]), ignore_case=operator is Operator.ILIKE)
    if comparison.field.kind is FieldKind.PARAMETER:
        pairs = [_parameter_pair(value, other) for other in others]
    else:
        pairs = [(value, other) for other in others]
    comparable = [pair for pair in pairs if pair is not None]
    if operator is Operator.IN:
        return any(left == right for left, right in comparable)
    if operator is Operator.NOT_IN:
        return len(comparable) == len(pairs) and all(left != right for left, right in comparable)
    return bool(comparable) and _ORDERED[operator](*comparable[0])


def _parameter_pair(value: Any, other: Scalar) -> tuple[Any, Any] | None:
    """A parameter and what it is compared with, both as numbers or both as text; None when they cannot be compared.

    A number without quotes meets numbers and texts that are one. A text in quotes meets texts, true and false by
    their names, and numbers by their value: "1e-3" is 0.001.
    """
    if isinstance(value, list | dict):
        return None
    if isinstance(value, bool):
        return ("true" if value else "false", other.lower()) if isinstance(other, str) else None
    if isinstance(other, str):
        if isinstance(value, str):
            return value, other
        return (float(value), float(other)) if NUMERIC.fullmatch(other) else (value, other)
    if isinstance(value, str):
        return (float(value), other) if NUMERIC.fullmatch(value) else None
    return float(value), other
