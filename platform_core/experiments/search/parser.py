"""Parses filters and orders of runs.

filter      any                            any         all {OR all}
all         comparison {AND comparison}    comparison  "(" any ")" | field operator value
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from platform_core.experiments.search import fields
from platform_core.experiments.search.fields import Field, FieldKind, ValueKind
from platform_core.experiments.search.filters import (
    INEQUALITIES,
    MEMBERSHIPS,
    NULL_TESTS,
    PATTERNS,
    AllOf,
    AnyOf,
    Comparison,
    Filter,
    Operator,
    Order,
    OrderKey,
    Scalar,
)
from platform_core.experiments.search.lexer import Token, TokenKind, invalid, tokens

MAX_COMPARISONS = 100
MAX_DEPTH = 20
MAX_LIST = 1_000
MAX_ORDER = 8
_SYMBOLS = {"=", "!=", "<", "<=", ">", ">="}
_PATTERNS_OF_TEXT = Operator.EQUAL, Operator.UNEQUAL, *sorted(PATTERNS), *sorted(MEMBERSHIPS)


def parse_filter(text: str) -> Filter:
    """Returns the filter; of an empty text, one that every run matches. Raises filter_invalid with the position."""
    parser = _Parser(text)
    if parser.next.kind is TokenKind.END:
        return AllOf()
    parsed = parser.any_of(0)
    parser.expect_end("AND, OR or the end")
    return parsed


def parse_order(text: str) -> Order:
    """`metrics.loss ASC, start_time DESC`; ascending where nothing is said. Raises filter_invalid."""
    parser = _Parser(text)
    keys: list[OrderKey] = []
    while parser.next.kind is not TokenKind.END:
        if len(keys) == MAX_ORDER:
            raise invalid(parser.next.position, f"an order has at most {MAX_ORDER} fields")
        field = parser.field()
        direction = parser.next.keyword
        if direction in ("ASC", "DESC"):
            parser.take()
        keys.append(OrderKey(field, direction == "DESC"))
        if not parser.next.is_symbol(","):
            parser.expect_end("ASC, DESC, a comma or the end")
            break
        parser.take()
    return tuple(keys)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self.next = next(self._tokens)
        self._comparisons = 0

    def take(self) -> Token:
        token = self.next
        if token.kind is not TokenKind.END:
            self.next = next(self._tokens)
        return token

    def expect_end(self, expected: str) -> None:
        if self.next.kind is not TokenKind.END:
            raise invalid(self.next.position, f"expected {expected}, not {self.next}")

    def any_of(self, depth: int) -> Filter:
        parts = [self._all_of(depth)]
        while self.next.keyword == "OR":
            self.take()
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all_of(self, depth: int) -> Filter:
        parts = [self._part(depth)]
        while self.next.keyword == "AND":
            self.take()
            parts.append(self._part(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _part(self, depth: int) -> Filter:
        if not self.next.is_symbol("("):
            return self._comparison()
        opening = self.take()
        if depth == MAX_DEPTH:
            raise invalid(opening.position, f"parentheses stand at most {MAX_DEPTH} deep")
        inner = self.any_of(depth + 1)
        if not self.take().is_symbol(")"):
            raise invalid(opening.position, "this parenthesis is not closed")
        return inner

    def _comparison(self) -> Comparison:
        start = self.next
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise invalid(start.position, f"a filter has at most {MAX_COMPARISONS} comparisons")
        field = self.field()
        token = self.next
        operator = self._operator()
        _require_comparable(field, operator, token)
        if operator in NULL_TESTS:
            return Comparison(field, operator)
        if operator in MEMBERSHIPS:
            return Comparison(field, operator, self._list(field, operator))
        return Comparison(field, operator, (self._value(field, operator),))

    def field(self) -> Field:
        token = self.take()
        if token.kind is TokenKind.QUOTED:
            return _attribute(token.text, token)
        if token.kind is not TokenKind.WORD:
            raise invalid(token.position, f"expected a name such as metrics.loss or state, not {token}")
        prefix, dot, key = token.text.partition(".")
        if not dot:
            return _attribute(token.text, token)
        kind = fields.PREFIXES.get(prefix.lower())
        if kind is None:
            known = "metrics, lowest, highest, params, tags, attributes, datasets"
            raise invalid(token.position, f"{prefix[:60]!r} is no kind of field; there are {known}")
        if not key and self.next.joined and self.next.kind in (TokenKind.STRING, TokenKind.QUOTED):
            key = self.take().text
        if not key:
            raise invalid(token.position, f"{token.text!r} lacks a name after the dot")
        if kind is FieldKind.ATTRIBUTE:
            return _attribute(key, token)
        if kind is FieldKind.DATASET and key not in fields.DATASET_FIELDS:
            reason = f"datasets have no {key[:60]!r}; they have {', '.join(fields.DATASET_FIELDS)}"
            raise invalid(token.position, reason)
        return Field(kind, key)

    def _operator(self) -> Operator:
        token = self.take()
        if token.kind is TokenKind.SYMBOL and token.text in _SYMBOLS:
            return Operator(token.text)
        if token.text in ("==", "<>"):
            meant = {"==": "=", "<>": "!="}[token.text]
            raise invalid(token.position, f"write {meant} instead of {token.text}")
        if token.keyword in ("LIKE", "ILIKE", "IN"):
            return Operator(token.keyword)
        if token.keyword == "NOT" and self.next.keyword == "IN":
            self.take()
            return Operator.NOT_IN
        if token.keyword == "IS":
            negated = self.next.keyword == "NOT"
            if negated:
                self.take()
            if self.take().keyword != "NULL":
                raise invalid(token.position, "expected IS NULL or IS NOT NULL")
            return Operator.IS_NOT_NULL if negated else Operator.IS_NULL
        raise invalid(token.position, f"expected an operator such as = or LIKE, not {token}")

    def _list(self, field: Field, operator: Operator) -> tuple[Scalar, ...]:
        opening = self.take()
        if not opening.is_symbol("("):
            raise invalid(opening.position, f"{operator} takes a list: ('a', 'b')")
        values: list[Scalar] = []
        while True:
            values.append(self._value(field, operator))
            if len(values) > MAX_LIST:
                raise invalid(self.next.position, f"a list has at most {MAX_LIST:,} values")
            if self.next.is_symbol(","):
                self.take()
            elif not self.next.is_symbol(")"):
                raise invalid(self.next.position, f"expected a comma or ), not {self.next}")
            if self.next.is_symbol(")"):
                self.take()
                return tuple(values)

    def _value(self, field: Field, operator: Operator) -> Scalar:
        token = self.take()
        kind = field.value_kind
        if kind is ValueKind.FLAG:
            return _flag(field, token)
        if token.kind is TokenKind.NUMBER:
            if kind is ValueKind.TEXT or operator in PATTERNS:
                raise invalid(token.position, f"{field} is text here; write '{token.text}' in quotes")
            return _number(token)
        if token.kind is not TokenKind.STRING:
            raise invalid(
                token.position, f"expected a value for {field}: a number, or text in quotes, not {token}"
            )
        if kind is ValueKind.NUMBER or (kind is ValueKind.ANY and operator in INEQUALITIES):
            raise invalid(token.position, f"{field} is a number here; write it without quotes")
        if kind is ValueKind.TIME:
            return _time(field, token)
        if field == STATE and operator not in PATTERNS:
            return _state(token)
        return token.text


STATE = Field(FieldKind.ATTRIBUTE, "state")


def _attribute(name: str, token: Token) -> Field:
    known = fields.ALIASES.get(name.lower(), name.lower())
    if known not in fields.ATTRIBUTES:
        reason = (
            f"{name[:60]!r} is no field of a run; there are {', '.join(fields.ATTRIBUTES)}, and metrics.NAME,"
        )
        raise invalid(token.position, f"{reason} params.NAME, tags.NAME, datasets.NAME")
    return Field(FieldKind.ATTRIBUTE, known)


def _require_comparable(field: Field, operator: Operator, token: Token) -> None:
    kind = field.value_kind
    if operator in NULL_TESTS or kind is ValueKind.ANY:
        return
    if kind is ValueKind.TEXT and operator in INEQUALITIES:
        raise invalid(token.position, f"{field} is text; compare it with {', '.join(_PATTERNS_OF_TEXT)}")
    if kind is not ValueKind.TEXT and operator in PATTERNS:
        raise invalid(token.position, f"{field} is {kind}; {operator} compares text")
    if kind is ValueKind.FLAG and operator not in (Operator.EQUAL, Operator.UNEQUAL):
        raise invalid(token.position, f"{field} is {kind}; compare it with = or !=")


def _number(token: Token) -> float:
    number = float(token.text)
    if not math.isfinite(number):
        raise invalid(token.position, f"{token.text[:40]} is beyond the numbers of 64 bits")
    return number


def _flag(field: Field, token: Token) -> bool:
    if token.text.lower() not in ("true", "false"):
        raise invalid(token.position, f"{field} is true or false, not {token}")
    return token.text.lower() == "true"


def _time(field: Field, token: Token) -> float:
    try:
        moment = datetime.fromisoformat(token.text)
    except ValueError:
        reason = f"{field} is a time such as '2026-01-31' or '2026-01-31T12:00:00+00:00', or milliseconds, not {token}"
        raise invalid(token.position, reason) from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return float(since.total_seconds() * 1000)


def _state(token: Token) -> str:
    state = fields.STATES.get(token.text.lower())
    if state is None:
        raise invalid(token.position, f"{token} is no state of a run; there are {', '.join(fields.STATES)}")
    return state
