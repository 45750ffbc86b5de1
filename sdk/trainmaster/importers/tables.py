"""Tables as Excel, pandas and web pages write them: CSV in several encodings and dialects, read whole or refused."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmaster.importers.runs import SourceError

Cell = float | str | None
_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DELIMITERS = ",;\t"
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_WITH_COMMA = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+([eE][+-]?[0-9]+)?")
_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "null", "none"})
_FLAGS = {"true": 1.0, "false": 0.0}
_LONGEST_CELL = 16 << 20


@dataclass(frozen=True, slots=True)
class Table:
    """`rows`: the line that a row ends in, and its cell of each column: a number, a text, None where it is empty."""

    file: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[int, Mapping[str, Cell]], ...]


def text_of(file: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 or UTF-32 with its mark. Raises SourceError with the line."""
    data = file.read_bytes()
    encoding = next((name for mark, name in _ENCODINGS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"line {line} of {file} is not {encoding.removesuffix('-sig').upper()}; save it as CSV in UTF-8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SourceError(f"line {line} of {file} has a NUL character; save it as CSV in UTF-8")
    return text


def read_table(file: Path) -> Table:
    """Raises SourceError with the line of the first row that is not whole or whose numbers can be read in two ways."""
    text = text_of(file)
    first, _, rest = text.partition("\n")
    delimiter, skipped = "", 0
    if re.fullmatch(r"sep=.\r?", first):  # Excel's own line
        delimiter, text, skipped = first[4], rest, 1
    delimiter = delimiter or _delimiter(text)
    lines = [(number + skipped, cells) for number, cells in _lines(file, text, delimiter) if any(cells)]
    if len(lines) < 2:
        raise SourceError(f"{file} has {'a header but no rows' if lines else 'no lines'}")
    (_, header), *body = lines
    names = [name.strip() for name in header]
    index = 0 if names[0] in ("", "Unnamed: 0") else -1  # the row numbers of pandas
    _check_header(file, names, index)
    for number, cells in body:
        if len(cells) != len(names):
            raise SourceError(f"line {number} of {file} has {len(cells)} cells; its header has {len(names)}")
    columns = {
        name: _column(file, name, [(number, cells[place].strip()) for number, cells in body], delimiter)
        for place, name in enumerate(names)
        if place != index
    }
    rows = (
        (number, {name: cells[place] for name, cells in columns.items()})
        for place, (number, _) in enumerate(body)
    )
    return Table(file, tuple(columns), tuple(rows))


def _delimiter(text: str) -> str:
    """The one that makes most columns of the header."""
    counts = {}
    for delimiter in _DELIMITERS:
        try:
            counts[delimiter] = len(next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), []))
        except csv.Error:
            counts[delimiter] = 0
    return max(counts, key=lambda delimiter: counts[delimiter])


def _lines(file: Path, text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    before = csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise SourceError(f"line {reader.line_num} of {file} cannot be read: {error}") from None
    finally:
        csv.field_size_limit(before)


def _check_header(file: Path, names: list[str], index: int) -> None:
    if blank := [place for place, name in enumerate(names) if not name and place != index]:
        raise SourceError(f"the header of {file} names no column {blank[0] + 1}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SourceError(f"the header of {file} has the column {twice[0]!r:.60} twice")


def _column(file: Path, name: str, cells: list[tuple[int, str]], delimiter: str) -> list[Cell]:
    """Numbers with a decimal comma are read where a comma parts no cells and the column has no decimal point."""
    has_comma = next((line for line, text in cells if _WITH_COMMA.fullmatch(text)), None)
    has_point = any(_NUMBER.fullmatch(text) and "." in text for _, text in cells)
    if has_comma is not None and (delimiter == "," or has_point):
        raise SourceError(
            f"line {has_comma} of {file} has a number with a comma in the column {name!r:.60}: it may part "
            "thousands or decimals; write decimals with a point"
        )
    numeric = any(_is_number(text) for _, text in cells)
    return [_cell(file, name, line, text, numeric) for line, text in cells]


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text) or _WITH_COMMA.fullmatch(text))


def _cell(file: Path, name: str, line: int, text: str, numeric: bool) -> Cell:
    if text.lower() in _MISSING:
        return None
    if _WITH_COMMA.fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    if _NUMBER.fullmatch(text):
        return float(text)
    if text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if numeric:
        raise SourceError(
            f"line {line} of {file} has {text!r:.60} among the numbers of the column {name!r:.60}"
        )
    return text
