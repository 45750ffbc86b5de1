"""Runs as Parquet files: runs.parquet, a row a run, points.parquet, a row a point, and values.parquet, a row for each
image, sound, table, histogram and text; images and sounds lie as files in the folder values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from trainmaster.client import Client
from trainmaster.exporters.runs import ExportedRun, keys_of, points_of
from trainmaster.exporters.values import ExportedValue, values_of

_TEXTS = ("id", "name", "state", "owner", "group", "source", "description")
_TIMES = ("created_ms", "started_ms", "ended_ms")
_OF_VALUE = ("run", "key", "step", "index", "kind", "at_ms", "caption", "file", "document")
_NUMBERS = frozenset({"step", "index", "at_ms"})
_DOCUMENTS = ("parameters", "tags", "lineage")  # as JSON


def write(client: Client, runs: Iterable[ExportedRun], folder: Path) -> int:
    """How many points were written. Needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [
        ("run", pa.string()),
        ("key", pa.string()),
        ("step", pa.int64()),
        ("value", pa.float64()),
        ("at_ms", pa.int64()),
    ]
    schema = pa.schema(columns)
    count, lines, rich = 0, [], list[dict[str, object]]()
    with pq.ParquetWriter(folder / "points.parquet", schema, compression="zstd") as writer:
        for run in runs:
            lines.append(_line(run))
            for key in keys_of(client, run):
                for points in points_of(client, run, key):
                    steps, values, times = zip(*points, strict=True) if points else ((), (), ())
                    columns_of = [[run.id] * len(points), [key] * len(points), steps, values, times]
                    arrays = [
                        pa.array(list(column), field.type)
                        for column, field in zip(columns_of, schema, strict=True)
                    ]
                    writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
                    count += len(points)
            rich += [_value(run, value, folder) for value in values_of(client, run)]
    fields = [(name, pa.int64() if name in _NUMBERS else pa.string()) for name in _OF_VALUE]
    pq.write_table(
        pa.Table.from_pylist(rich, schema=pa.schema(fields)), folder / "values.parquet", compression="zstd"
    )
    types = [
        *((name, pa.string()) for name in (*_TEXTS, *_DOCUMENTS)),
        *((name, pa.int64()) for name in _TIMES),
    ]
    pq.write_table(
        pa.Table.from_pylist(lines, schema=pa.schema(types)), folder / "runs.parquet", compression="zstd"
    )
    return count


def _value(run: ExportedRun, value: ExportedValue, folder: Path) -> dict[str, object]:
    file = ""
    if value.document is None:
        file = f"values/{run.id}/{value.file_name}"
        place = folder / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(value.data)
    return {
        "run": run.id, "key": value.key, "step": value.step, "index": value.index, "kind": value.kind,
        "at_ms": value.at_ms, "caption": value.caption, "file": file,
        "document": "" if value.document is None else json.dumps(value.document),
    }  # fmt: skip


def _line(run: ExportedRun) -> dict[str, object]:
    texts = {name: str(run.fields.get(name) or "") for name in _TEXTS}
    times = {name: run.fields.get(name) for name in _TIMES}
    documents = {name: json.dumps(run.fields.get(name) or {}, sort_keys=True) for name in _DOCUMENTS}
    return texts | times | documents
