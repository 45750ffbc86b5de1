"""Whether two versions of a model answer the same request alike."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

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
    if not rows or others is None or [_shape(row) for row in rows] != [_shape(row) for row in others]:
        return None
    pairs = list(zip(rows, others, strict=True))
    difference = math.fsum(_difference(row, beside) for row, beside in pairs) / len(pairs)
    return Comparison(all(_alike(row, beside) for row, beside in pairs), difference)


def _rows(answer: bytes) -> list[Row] | None:
    """What was answered to each row of plain JSON, of one tensor of KServe v2, or as completions."""
    try:
        document = json.loads(answer)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    outputs = document.get("outputs", document.get("choices"))
    if not isinstance(outputs, list) or not outputs:
        return None
    first = outputs[0]
    if isinstance(first, dict) and isinstance(first.get("data"), list):
        outputs = _tensor(first)
    elif isinstance(first, dict):
        outputs = [one.get("text") if isinstance(one, dict) else None for one in outputs]
    rows = [_row(one) for one in outputs]
    return [row for row in rows if row is not None] if None not in rows else None


def _tensor(tensor: dict[str, Any]) -> list[Any]:
    shape = tensor.get("shape")
    sizes = [one for one in shape[1:] if isinstance(one, int)] if isinstance(shape, list) else []
    data, size = tensor["data"], max(1, math.prod(sizes))
    return [data[start : start + size] for start in range(0, len(data), size)]


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
