"""The beginning of a file of a dataset as a person reads it. Nothing is decompressed, so nothing can blow up."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.datasets.columns import Column, Table, of_csv, of_json_lines, shown
from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FileEntry
from platform_core.errors import TrainmasterError
from trainmaster.store import Store, open_store
from webapp.artifacts import queries as artifacts
from webapp.datasets import queries, sources
from webapp.datasets.models import DatasetSnapshot

READ_BYTES = 256 * 1024
FOOTER_BYTES = 16 * 2**20  # of a Parquet file
ROWS_SHOWN = 20
SEPARATORS = {"csv": ",", "tsv": "\t"}
JSON_LINES = ("jsonl", "ndjson")
TEXT_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Preview:
    """`kind` is table, text or none; `note` says what was read, or why nothing is shown."""

    path: str
    size: int
    kind: str
    note: str
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    text: str = ""
    rows_in_all: int | None = None  # where the file says so


def preview(row: DatasetSnapshot, path: str) -> Preview:
    """Raises not_found for a path that the version does not have, and what its store raises."""
    file = next((each for each in queries.files(row) if each["path"] == path), None)
    manifest = artifacts.find(row.manifest_id or "")
    if file is None or manifest is None:
        raise TrainmasterError("not_found", what=f"file {path} in {row.name} version {row.version}")
    if not manifest.source_url:
        return Preview(path, file["size"], "none", "Its bytes were deleted.")
    entry = FileEntry(path, file["size"], file["sha256"])
    store = sources.opened(sources.check(row.source)) if row.source else open_store(manifest.source_url)
    return _preview(store, stored_path(manifest.source_url, entry), entry)


def _preview(store: Store, place: str, entry: FileEntry) -> Preview:
    kind = entry.path.rpartition(".")[2].lower()
    if kind == "parquet":
        return _of_parquet(store, place, entry)
    data = store.read_range(place, 0, min(entry.size, READ_BYTES)) if entry.size else b""
    complete = len(data) == entry.size
    text = _as_text(data, complete)
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


def _of_table(entry: FileEntry, note: str, table: Table) -> Preview:
    names = [column.name for column in table.columns]
    rows = tuple(shown(row.get(name) for name in names) for row in table.rows[:ROWS_SHOWN])
    return Preview(entry.path, entry.size, "table", f"{note}: {len(table.rows):,} rows", table.columns, rows)


def _of_parquet(store: Store, place: str, entry: FileEntry) -> Preview:
    """From the footer alone."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        why = "This platform has no pyarrow, which reads Parquet; install trainmaster[export]."
        return Preview(entry.path, entry.size, "none", why)
    tail = store.read_range(place, max(0, entry.size - 8), min(8, entry.size))
    length = int.from_bytes(tail[:4], "little") + 8
    if tail[4:] != b"PAR1" or length > min(entry.size, FOOTER_BYTES):
        return Preview(
            entry.path, entry.size, "none", "It is not a Parquet file, or its footer is too large."
        )
    footer = store.read_range(place, entry.size - length, length)
    try:
        # Offsets in the footer count from the start of the file, which is not read.
        metadata = parquet.read_metadata(io.BytesIO(b"PAR1" + footer))
        columns = tuple(_parquet_column(metadata, number) for number in range(metadata.num_columns))
    except (ArrowException, OSError, ValueError) as error:
        return Preview(entry.path, entry.size, "none", f"Its footer cannot be read: {str(error)[:200]}")
    note = f"Of {metadata.num_row_groups:,} row groups, by the statistics in the file"
    return Preview(entry.path, entry.size, "table", note, columns, rows_in_all=int(metadata.num_rows))


def _parquet_column(metadata: Any, number: int) -> Column:
    schema = metadata.schema.column(number)
    groups = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
    known = [group for group in groups if group is not None]
    ranged = [group for group in known if group.has_min_max]
    lowest = min((group.min for group in ranged), default=None)
    highest = max((group.max for group in ranged), default=None)
    nulls = sum(group.null_count or 0 for group in known)
    low, high = shown((lowest, highest))
    return Column(schema.path, (str(schema.physical_type).lower(),), nulls, low, high)


def as_mapping(seen: Preview) -> Mapping[str, Any]:
    """For JSON."""
    columns = [
        {
            "name": column.name,
            "types": list(column.types),
            "nulls": column.nulls,
            "lowest": column.lowest,
            "highest": column.highest,
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
    }
