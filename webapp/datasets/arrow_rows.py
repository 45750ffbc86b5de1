"""The first rows of a Parquet or Arrow file, read in a process with limits: `python -m webapp.datasets.arrow_rows`.

The file is somebody's upload. Its compressed pages may claim any size, and a broken one may crash the reader.
"""

import json
import resource
import sys
from collections.abc import Callable
from typing import Any

ROWS = 1000
CPU_SECONDS = 10


def parquet_rows(path: str, columns: list[str]) -> tuple[Any, Any]:
    """Schema of all columns; the first rows of these, as their first row group has them."""
    from pyarrow import parquet

    file = parquet.ParquetFile(path, memory_map=False, pre_buffer=False)
    batches = (
        file.iter_batches(ROWS, row_groups=[0], columns=columns, use_threads=False) if columns else iter(())
    )
    return file.schema_arrow, next(batches, None)


def arrow_rows(path: str, _: list[str]) -> tuple[Any, Any]:
    """Of a file or a stream whose end may be missing: both begin with the schema and the first batches."""
    from pyarrow import ArrowException, OSFile, ipc

    source = OSFile(path)
    magic = source.read(8)
    source.seek(8 if magic.startswith(b"ARROW1") else 0)
    stream = ipc.open_stream(source)
    try:
        batch = stream.read_next_batch()
    except (ArrowException, OSError, StopIteration):
        batch = None
    return stream.schema, batch


READERS: dict[str, Callable[[str, list[str]], tuple[Any, Any]]] = {
    "parquet": parquet_rows,
    "arrow": arrow_rows,
}


def main(kind: str, path: str, columns: list[str], memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    schema, batch = READERS[kind](path, columns)
    found = {
        "types": {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)},
        "rows": batch.slice(0, ROWS).to_pylist() if batch is not None else [],
    }
    json.dump(found, sys.stdout, default=_shown)


def _shown(value: Any) -> str:
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else str(value)[:200]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
