"""The one filter grammar of runs: parsed, ordered, matched. docs/reference/filter.md describes it for people."""

from platform_core.experiments.search.fields import (
    ATTRIBUTES,
    OF_METRIC,
    Attribute,
    Field,
    FieldKind,
    ValueKind,
)
from platform_core.experiments.search.filters import (
    AllOf,
    AnyOf,
    Comparison,
    Filter,
    Operator,
    Order,
    OrderKey,
    fields_of,
)
from platform_core.experiments.search.matching import RunValues, matches
from platform_core.experiments.search.parser import parse_filter, parse_order

__all__ = [
    "ATTRIBUTES",
    "OF_METRIC",
    "AllOf",
    "AnyOf",
    "Attribute",
    "Comparison",
    "Field",
    "FieldKind",
    "Filter",
    "Operator",
    "Order",
    "OrderKey",
    "RunValues",
    "ValueKind",
    "fields_of",
    "matches",
    "parse_filter",
    "parse_order",
]
