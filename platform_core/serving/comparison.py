"""Whether two versions of a model answer the same request alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from platform_core.serving import bodies

CLOSE = 1e-3  # of the greater of two numbers: nearer ones are the same answer

Row = str | list[float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of the answers to one request. `difference`: mean |a - b| of their numbers; of texts 0 or 1."""

    alike: bool
    difference: float


def compare(answer: bytes, other: bytes) -> Comparison | None:
    """None where one of them is no JSON of a known protocol, or they have different shapes.

    Lists of numbers are alike where their greatest stands in the same place, single numbers where they are close,
    texts where they are equal.
    """
    rows, others = _rows(answer), _rows(other)
    if not rows or [_shape(row) for row in rows] != [_shape(row) for row in others]:
        return None
    pairs = list(zip(rows, others, strict=True))
    difference = math.fsum(_difference(row, beside) for row, beside in pairs) / len(pairs)
    return Comparison(all(_alike(row, beside) for row, beside in pairs), difference)


def _rows(answer: bytes) -> list[Row]:
    """[] where one of them is neither a text nor numbers."""
    rows = [_row(one) for one in bodies.answered(bodies.document_of(answer))]
    return [row for row in rows if row is not None] if None not in rows else []


def _row(value: Any) -> Row | None:
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, list) else [value]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
        return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else None
    return [float(one) for one in numbers]


def _shape(row: Row) -> int:
    return -1 if isinstance(row, str) else len(row)


def _alike(row: Row, other: Row) -> bool:
    if isinstance(row, str) or isinstance(other, str):
        return row == other
    if len(row) == 1:
        return math.isclose(row[0], other[0], rel_tol=CLOSE, abs_tol=CLOSE)
    return not row or row.index(max(row)) == other.index(max(other))


def _difference(row: Row, other: Row) -> float:
    if isinstance(row, str) or isinstance(other, str):
        return float(row != other)
    return math.fsum(abs(a - b) for a, b in zip(row, other, strict=True)) / max(1, len(row))
