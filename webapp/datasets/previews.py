"""The beginning of a file of a dataset as a person reads it. Parquet and Arrow are parsed by a reader process."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from platform_core.datasets.columns import Column, Table, of_csv, of_json_lines, shown, table
from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FileEntry
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from trainmaster.reader.pool import Lacking, Stopped, Unreadable
from trainmaster.store import Store, open_store
from webapp.artifacts import queries as artifacts
from webapp.base import turns
from webapp.base.connections import outside
from webapp.datasets import arrow_files, queries, sources
from webapp.datasets.arrow_files import FirstRows
from webapp.datasets.models import DatasetSnapshot

READ_BYTES = 256 * 1024
FOOTER_BYTES = 16 * 2**20  # of a Parquet file
ROWS_SHOWN = 20
SEPARATORS = {"csv": ",", "tsv": "\t"}
JSON_LINES = ("jsonl", "ndjson")
TEXT_CHARACTERS = 20_000
ARROW = ("arrow", "arrows", "feather", "ipc")
IMAGE_BYTES = 4 * 2**20
# How each begins that browsers show; an SVG is not among them, as it may hold scripts.
IMAGES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp", b"BM": "bmp"}


@dataclass(frozen=True, slots=True)
class Preview:
    """`kind` is table, text, image or none; `note` says what was read, or why nothing is shown."""

    path: str
    size: int
    kind: str
    note: str
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    text: str = ""
    rows_in_all: int | None = None  # where the file says so
    image: str = ""  # as a data: URL


def preview(row: DatasetSnapshot, path: str, person: str) -> Preview:
    """Raises not_found for a path that the version does not have, rate_limited where the person reads too many at once,
    and what its store raises."""
    file = next((each for each in queries.files(row) if each["path"] == path), None)
    manifest = artifacts.find(row.manifest_id or "")
    if file is None or manifest is None:
        raise TrainmasterError("not_found", what=f"file {path} in {row.name} version {row.version}")
    if not manifest.source_url:
        return Preview(path, file["size"], "none", "Its bytes were deleted.")
    entry = FileEntry(path, file["size"], file["sha256"])
    with turns.turn("preview", person), outside():
        if row.source:
            # Its bytes may have been uploaded as well, and lie elsewhere by other names.
            return read(sources.opened(sources.check(row.source)), path, entry)
        return read(open_store(manifest.source_url), stored_path(manifest.source_url, entry), entry)


def read(store: Store, place: str, entry: FileEntry) -> Preview:
    """Of the file at this place. Raises Stopped, and what the store raises."""
    kind = entry.path.rpartition(".")[2].lower()
    if kind == "parquet" or kind in ARROW:
        return _of_columns(store, place, entry, _of_parquet if kind == "parquet" else _of_arrow)
    data = store.read_range(place, 0, min(entry.size, READ_BYTES)) if entry.size else b""
    complete = len(data) == entry.size
    text = _as_text(data, complete)
    if text is None and (image := _image_type(data)):
        return _of_image(store, place, entry, image)
    if text is None:
        return Preview(
            entry.path, entry.size, "none", "It is not text, and no other preview of its kind is known."
        )
    note = "The whole file" if complete else f"The first {READ_BYTES // 1024} KiB"
    if kind in SEPARATORS:
        return _of_table(entry, note, of_csv(text, SEPARATORS[kind], complete))
    if kind in JSON_LINES:
        return _of_table(entry, note, of_json_lines(text, complete))
    return Preview(entry.path, entry.size, "text", note, text=text[:TEXT_CHARACTERS])


def _as_text(data: bytes, complete: bool) -> str | None:
    """A character that was cut at the end is left out; None where it is not UTF-8 text."""
    for cut in range(1 if complete else 4):
        try:
            text = data[: len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None


def _of_table(entry: FileEntry, note: str, read: Table) -> Preview:
    rows = _shown_rows(read.rows, [column.name for column in read.columns])
    return Preview(entry.path, entry.size, "table", f"{note}: {len(read.rows):,} rows", read.columns, rows)


def _shown_rows(rows: Sequence[Mapping[str, Any]], names: list[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(shown(row.get(name) for name in names) for row in rows[:ROWS_SHOWN])


def _of_columns(
    store: Store, place: str, entry: FileEntry, reader: Callable[[Store, str, FileEntry], Preview]
) -> Preview:
    """Raises Stopped for a file that ends its reader, as one does that was made to."""
    try:
        return reader(store, place, entry)
    except Lacking:
        why = "This platform has no pyarrow, which reads it; install trainmaster[export]."
    except Stopped:
        raise
    except Unreadable as error:
        why = f"{error.sentence}."
    return Preview(entry.path, entry.size, "none", why)


def _of_parquet(store: Store, place: str, entry: FileEntry) -> Preview:
    """The statistics of the footer, and the rows of the first row group where they can be read."""
    tail = store.read_range(place, max(0, entry.size - 8), min(8, entry.size))
    length = int.from_bytes(tail[:4], "little") + 8
    if tail[4:] != b"PAR1" or length > min(entry.size, FOOTER_BYTES):
        return Preview(
            entry.path, entry.size, "none", "It is not a Parquet file, or its footer is too large."
        )
    footer = arrow_files.footer(store.read_range(place, entry.size - length, length), _named(entry))
    columns = tuple(Column(**{**column, "types": tuple(column["types"])}) for column in footer.columns)
    note = f"Of {footer.groups:,} row groups, by the statistics in the file"
    seen = Preview(entry.path, entry.size, "table", note, columns, rows_in_all=footer.rows)
    if not footer.names:
        return seen
    parts = [*footer.parts, (entry.size - length, length)]
    try:
        rows = arrow_files.first_rows(
            store, place, entry.size, "parquet", parts, footer.names, what=_named(entry)
        )
    except Unreadable as error:
        return replace(seen, note=f"{note}; its rows are not shown: {error.why}")
    return _with_rows(seen, rows)


def _named(entry: FileEntry) -> str:
    return f"The file {entry.path}"


def _with_rows(seen: Preview, found: FirstRows) -> Preview:
    """Missing values and ranges stay those of the statistics, which know all rows."""
    read = {column.name: column for column in table(found.rows).columns}
    columns = tuple(
        replace(column, top=read[column.name].top, histogram=read[column.name].histogram)
        if column.name in read
        else column
        for column in seen.columns
    )
    note = f"{seen.note}; frequent values and histograms of the first {len(found.rows):,} rows"
    return replace(seen, note=note, columns=columns, rows=_shown_rows(found.rows, list(read)))


def _of_arrow(store: Store, place: str, entry: FileEntry) -> Preview:
    head = min(entry.size, arrow_files.READ_BYTES)
    found = arrow_files.first_rows(store, place, head, "arrow", [(0, head)], what=_named(entry))
    read = {column.name: column for column in table(found.rows).columns}
    columns = tuple(
        replace(read.get(name, Column(name, (), 0)), types=(kind,)) for name, kind in found.types.items()
    )
    note = (
        f"The first {len(found.rows):,} rows"
        if found.rows
        else "Its schema; its first batch is empty or too large"
    )
    return Preview(entry.path, entry.size, "table", note, columns, _shown_rows(found.rows, list(found.types)))


def _image_type(data: bytes) -> str:
    return next((kind for magic, kind in IMAGES.items() if data.startswith(magic)), "")


def _of_image(store: Store, place: str, entry: FileEntry, kind: str) -> Preview:
    if entry.size > IMAGE_BYTES:
        why = f"An image of more than {format_bytes(IMAGE_BYTES)} is not shown."
        return Preview(entry.path, entry.size, "none", why)
    data = base64.b64encode(store.read_range(place, 0, entry.size)).decode()
    return Preview(
        entry.path,
        entry.size,
        "image",
        f"{kind.upper()}, {format_bytes(entry.size)}",
        image=f"data:image/{kind};base64,{data}",
    )


def as_mapping(seen: Preview) -> Mapping[str, Any]:
    """For JSON."""
    columns = [
        {
            "name": column.name,
            "types": list(column.types),
            "nulls": column.nulls,
            "lowest": column.lowest,
            "highest": column.highest,
            "histogram": list(column.histogram),
            "top": [{"value": value, "count": count} for value, count in column.top],
        }
        for column in seen.columns
    ]
    return {
        "path": seen.path,
        "bytes": seen.size,
        "kind": seen.kind,
        "note": seen.note,
        "columns": columns,
        "rows": [list(row) for row in seen.rows],
        "text": seen.text,
        "rows_in_all": seen.rows_in_all,
        "image": seen.image,
    }
