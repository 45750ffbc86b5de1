"""A parsed filter and a parsed order, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from platform_core.experiments.search.fields import Field


class Operator(StrEnum):
    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    LIKE = "LIKE"
    ILIKE = "ILIKE"
    IN = "IN"
    NOT_IN = "NOT IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"


NULL_TESTS = frozenset({Operator.IS_NULL, Operator.IS_NOT_NULL})
MEMBERSHIPS = frozenset({Operator.IN, Operator.NOT_IN})
PATTERNS = frozenset({Operator.LIKE, Operator.ILIKE})
INEQUALITIES = frozenset({Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST})

Scalar = str | float | bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`values` has one value, several for IN and NOT IN, none for IS NULL and IS NOT NULL.

    Numbers are floats, times milliseconds; a comparison with what a run lacks is false, except for IS NULL.
    """

    field: Field
    operator: Operator
    values: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class AllOf:
    """Of no parts it is true: the empty filter."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Filter, ...]


Filter = Comparison | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class OrderKey:
    """Runs that lack the field come last in both directions."""

    field: Field
    descending: bool = False


Order = tuple[OrderKey, ...]


def fields_of(filter: Filter) -> Iterator[Field]:
    if isinstance(filter, Comparison):
        yield filter.field
        return
    for part in filter.parts:
        yield from fields_of(part)
