"""The columns of a table's first rows: types, missing values, ranges and the most frequent values."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MOST_COLUMNS = 200
MOST_DISTINCT = 1000  # of one column; above, only the range is told
TOP = 5
BINS = 20  # of a histogram


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    types: tuple[str, ...]  # the most frequent first
    nulls: int
    lowest: str = ""  # of numbers
    highest: str = ""
    top: tuple[tuple[str, int], ...] = ()  # the most frequent values, where some repeat
    histogram: tuple[int, ...] = ()  # numbers in equal steps from the lowest to the highest

    @property
    def heights(self) -> tuple[float, ...]:
        """The histogram in percent of its highest step."""
        return tuple(round(100 * count / max(self.histogram), 1) for count in self.histogram)


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]


def of_csv(text: str, separator: str, complete: bool) -> Table:
    """The first line names the columns. Of a text that is cut, the last line is left out."""
    lines = text.splitlines() if complete else text.splitlines()[:-1]
    reader = csv.DictReader(lines, delimiter=separator, restkey="", restval="")
    rows: list[Mapping[str, Any]] = []
    with suppress(csv.Error):  # what was read before the broken line is shown
        rows.extend(
            {name: _typed(value) for name, value in row.items() if isinstance(value, str)} for row in reader
        )
    return table(rows)


def of_json_lines(text: str, complete: bool) -> Table:
    """Lines that are no JSON objects are left out."""
    lines = text.splitlines() if complete else text.splitlines()[:-1]
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return table(rows)


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))[:MOST_COLUMNS]
    return Table(tuple(_column(name, [row.get(name) for row in rows]) for name in names), tuple(rows))


def _column(name: str, values: Sequence[Any]) -> Column:
    present = [value for value in values if value is not None]
    types = Counter(_type(value) for value in present)
    numbers = [value for value in present if _type(value) in ("integer", "number")]
    counts = Counter(_shown(value) for value in present)
    repeats = len(counts) < len(present) and len(counts) <= MOST_DISTINCT
    return Column(
        name,
        tuple(kind for kind, _ in types.most_common()),
        len(values) - len(present),
        _shown(min(numbers)) if numbers else "",
        _shown(max(numbers)) if numbers else "",
        tuple(counts.most_common(TOP)) if repeats else (),
        _histogram([number for number in map(_as_float, numbers) if math.isfinite(number)]),
    )


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number that no float holds
        return math.inf


def _histogram(numbers: Sequence[float]) -> tuple[int, ...]:
    lowest, highest = min(numbers, default=0.0), max(numbers, default=0.0)
    width = highest / BINS - lowest / BINS
    if width <= 0:
        return ()
    counts = [0] * BINS
    for number in numbers:
        counts[min(BINS - 1, int(number / width - lowest / width))] += 1
    return tuple(counts)


def _typed(text: str) -> Any:
    """A field of a CSV file as a number or None, where it reads as one."""
    if text == "":
        return None
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _type(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "text"), (list, "list")):
        if isinstance(value, kind):
            return name
    return "object"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"


def shown(values: Iterable[Any]) -> tuple[str, ...]:
    """Values as cells of a table."""
    return tuple("" if value is None else _shown(value) for value in values)
