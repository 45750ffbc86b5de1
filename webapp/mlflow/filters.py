"""MLflow's filters of experiments, models, versions and logged models: comparisons joined by AND.

Runs have the shared grammar of platform_core.experiments.search; the words of both are the same.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from platform_core.experiments.search.lexer import Token, TokenKind, tokens
from platform_core.experiments.search.like import like
from webapp.mlflow.errors import invalid

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_PREFIXES = {
    "attribute": "attributes",
    "attributes": "attributes",
    "attr": "attributes",
    "tag": "tags",
    "tags": "tags",
    "param": "params",
    "params": "params",
    "parameter": "params",
    "parameters": "params",
    "metric": "metrics",
    "metrics": "metrics",
}
Row = Mapping[str, Mapping[str, Any]]  # kind → name → value


@dataclass(frozen=True, slots=True)
class Grammar:
    """What may be named. Numeric attributes are compared by size, the others as text."""

    attributes: Collection[str]
    numeric: Collection[str] = ()
    kinds: Collection[str] = ("attributes", "tags")


@dataclass(frozen=True, slots=True)
class Clause:
    kind: str
    key: str
    operator: str
    value: Any

    def matches(self, row: Row) -> bool:
        value = row[self.kind].get(self.key)
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return (value is None) == (self.operator == "IS NULL")
        if value is None:
            return False
        if self.operator in ("LIKE", "ILIKE"):
            return like(str(value), self.value, ignore_case=self.operator == "ILIKE")
        if self.operator in ("IN", "NOT IN"):
            return (value in self.value) == (self.operator == "IN")
        return _ORDERED[self.operator](value, self.value)


def parse(text: str | None, grammar: Grammar) -> tuple[Clause, ...]:
    """Raises INVALID_PARAMETER_VALUE, or filter_invalid for what is no word at all."""
    words = list(tokens(text or ""))
    clauses: list[Clause] = []
    while words[0].kind is not TokenKind.END:
        if clauses and words.pop(0).keyword != "AND":
            raise invalid(f"Invalid clause(s) in filter string: {text}")
        clauses.append(_clause(words, grammar, text or ""))
    return tuple(clauses)


def select(rows: Iterable[Any], clauses: Sequence[Clause], values: Callable[[Any], Row]) -> list[Any]:
    return [row for row in rows if all(clause.matches(values(row)) for clause in clauses)]


def _clause(words: list[Token], grammar: Grammar, text: str) -> Clause:
    kind, key = _field(words, grammar)
    operator = _operator(words, text)
    numeric = kind == "metrics" or (kind == "attributes" and key in grammar.numeric)
    if operator in ("IS NULL", "IS NOT NULL"):
        if kind == "attributes":
            raise invalid(f"IS NULL / IS NOT NULL is only supported for tags, not for attribute '{key}'")
        return Clause(kind, key, operator, None)
    if not numeric and operator in ("<", "<=", ">", ">="):
        raise invalid(f"Invalid comparator '{operator}' for '{key}', which is text")
    if numeric and operator in ("LIKE", "ILIKE", "IN", "NOT IN"):
        raise invalid(f"Invalid comparator '{operator}' for '{key}', which is a number")
    if operator in ("IN", "NOT IN"):
        return Clause(kind, key, operator, _list(words, key))
    return Clause(kind, key, operator, _value(words, key, numeric))


def _field(words: list[Token], grammar: Grammar) -> tuple[str, str]:
    token = words.pop(0)
    if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        raise invalid(f"Invalid clause(s) in filter string: expected a name, not {token}")
    prefix, dot, key = token.text.partition(".") if token.kind is TokenKind.WORD else (token.text, "", "")
    if not dot:
        kind, key = "attributes", token.text
    else:
        kind = _PREFIXES.get(prefix.lower(), "")
        if kind not in grammar.kinds:
            raise invalid(
                f"Invalid entity type '{prefix}'. Valid entity types are {tuple(sorted(grammar.kinds))}"
            )
        if not key and words[0].joined and words[0].kind in (TokenKind.STRING, TokenKind.QUOTED):
            key = words.pop(0).text
    if kind == "attributes" and key not in grammar.attributes:
        known = ", ".join(sorted(grammar.attributes))
        raise invalid(f"Invalid attribute key '{key}' specified. Valid keys are '{known}'")
    return kind, key


def _operator(words: list[Token], text: str) -> str:
    token = words.pop(0)
    if token.kind is TokenKind.SYMBOL and token.text in _ORDERED:
        return token.text
    if token.keyword in ("LIKE", "ILIKE", "IN"):
        return token.keyword
    if token.keyword == "NOT" and words[0].keyword == "IN":
        words.pop(0)
        return "NOT IN"
    if token.keyword == "IS":
        negated = words[0].keyword == "NOT"
        if negated:
            words.pop(0)
        if words[0].keyword == "NULL":
            words.pop(0)
            return "IS NOT NULL" if negated else "IS NULL"
    raise invalid(f"Invalid comparison clause in filter string: {text[:500]}")


def _value(words: list[Token], key: str, numeric: bool) -> Any:
    token = words.pop(0)
    if token.kind is TokenKind.STRING and not numeric:
        return token.text
    if token.kind in (TokenKind.NUMBER, TokenKind.STRING) and numeric:
        try:
            return float(token.text)
        except ValueError:
            pass
    expected = "a numeric value" if numeric else "a quoted string value"
    raise invalid(f"Expected {expected} for '{key}'. Got value {token}")


def _list(words: list[Token], key: str) -> frozenset[str]:
    values: set[str] = set()
    token = words.pop(0)
    if not token.is_symbol("("):
        raise invalid(f"Expected a list of quoted string values for '{key}'. Got value {token}")
    while True:
        values.add(_value(words, key, False))
        token = words.pop(0) if len(words) > 1 else words[0]
        if token.is_symbol(")"):
            return frozenset(values)
        if not token.is_symbol(","):
            raise invalid(f"While parsing a list in the query, expected a comma or ')', not {token}")


def order(
    rows: list[Any],
    wanted: Sequence[str],
    columns: Mapping[str, Callable[[Any], Any]],
    default: Sequence[str],
) -> list[Any]:
    """Sorted by `ordering`."""
    for name, descending in reversed(ordering(wanted, columns, default).items()):
        rows = sorted(rows, key=columns[name], reverse=descending)
    return rows


def _directed(text: str) -> tuple[str, str]:
    """The field and ASC, DESC or ""."""
    words = text.strip().rsplit(maxsplit=1)
    if len(words) == 2 and words[1].upper() in ("ASC", "DESC"):
        return words[0], words[1].upper()
    return text.strip(), ""


def ordering(wanted: Sequence[str], known: Collection[str], default: Sequence[str]) -> dict[str, bool]:
    """Column → whether it descends: those asked for, such as "name ASC", then those of the default that are not among
    them. Raises INVALID_PARAMETER_VALUE."""
    keys: dict[str, bool] = {}
    for text in wanted:
        field, direction = _directed(text)
        name = field.partition(".")[2] if field.lower().startswith(("attribute.", "attributes.")) else field
        name = name.strip("`\"'")
        if name not in known:
            names = ", ".join(sorted(known))
            raise invalid(f"Invalid order by key '{field[:100]}' specified. Valid keys are '{names}'")
        if name in keys:
            raise invalid(f"`order_by` contains duplicate fields: {list(wanted)}")
        keys[name] = direction == "DESC"
    for text in default:
        name, _, direction = text.partition(" ")
        keys.setdefault(name, direction == "DESC")
    return keys
