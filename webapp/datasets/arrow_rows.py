"""Footers and first rows of Parquet and Arrow files. Runs in a reader process alone: a broken file ends it."""

import io
import json
from typing import Any

from pyarrow import ArrowException, OSFile, ipc, parquet

from platform_core.datasets.columns import shown

ROWS = 1000


def parquet_footer(data: bytes, *, most_bytes: int) -> dict[str, Any]:
    """Columns by the statistics of all row groups, and where the first columns of the first row group lie."""
    # Offsets in the footer count from the start of the file, which is not here.
    metadata = parquet.read_metadata(io.BytesIO(b"PAR1" + data))
    names, parts = _first_group(metadata, most_bytes)
    return {
        "columns": [_column(metadata, number) for number in range(metadata.num_columns)],
        "groups": metadata.num_row_groups,
        "rows": metadata.num_rows,
        "names": names,
        "parts": parts,
    }


def _column(metadata: Any, number: int) -> dict[str, Any]:
    schema = metadata.schema.column(number)
    groups = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
    known = [group for group in groups if group is not None]
    ranged = [group for group in known if group.has_min_max]
    lowest = min((group.min for group in ranged), default=None)
    highest = max((group.max for group in ranged), default=None)
    low, high = shown((lowest, highest))
    kind = str(schema.logical_type).lower()
    return {
        "name": schema.path,
        "types": [str(schema.physical_type).lower() if kind == "none" else kind],
        "nulls": sum(group.null_count or 0 for group in known),
        "lowest": low,
        "highest": high,
    }


def _first_group(metadata: Any, most_bytes: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Its first columns that are small enough together, and where their bytes lie; nothing of a file without rows."""
    names: dict[str, None] = {}
    parts: list[tuple[int, int]] = []
    left = most_bytes
    for number in range(metadata.num_columns if metadata.num_row_groups else 0):
        chunk = metadata.row_group(0).column(number)
        left -= chunk.total_compressed_size
        if left < 0:
            break
        names[chunk.path_in_schema.split(".")[0]] = None
        begin = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
        parts.append((begin, chunk.total_compressed_size))
    return list(names), parts


def parquet_rows(_: bytes, *, path: str, columns: list[str]) -> dict[str, Any]:
    """Schema of all columns; the first rows of these, as their first row group has them."""
    with parquet.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
        batches = (
            file.iter_batches(ROWS, row_groups=[0], columns=columns, use_threads=False)
            if columns
            else iter(())
        )
        return _rows(file.schema_arrow, next(batches, None))


def arrow_rows(_: bytes, *, path: str, columns: list[str]) -> dict[str, Any]:
    """Of a file or a stream whose end may be missing: both begin with the schema and the first batches."""
    with OSFile(path) as source:
        magic = source.read(8)
        source.seek(8 if magic.startswith(b"ARROW1") else 0)
        stream = ipc.open_stream(source)
        try:
            batch = stream.read_next_batch()
        except (ArrowException, OSError, StopIteration):
            batch = None
        return _rows(stream.schema, batch)


def _rows(schema: Any, batch: Any) -> dict[str, Any]:
    found = {
        "types": {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)},
        "rows": batch.slice(0, ROWS).to_pylist() if batch is not None else [],
    }
    plain: dict[str, Any] = json.loads(json.dumps(found, default=_shown))
    return plain


def _shown(value: Any) -> str:
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else str(value)[:200]
