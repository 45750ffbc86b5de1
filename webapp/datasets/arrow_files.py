"""As much of a Parquet or Arrow file as its first rows need, brought from the store and read by a reader process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainmaster.reader.pool import Unreadable, read
from trainmaster.store import Store

READ_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class FirstRows:
    types: Mapping[str, str]  # of every column
    rows: Sequence[Mapping[str, Any]]  # columns that were not read are not in them


@dataclass(frozen=True, slots=True)
class Footer:
    columns: Sequence[Mapping[str, Any]]
    groups: int
    rows: int
    names: Sequence[str]  # of the columns that are small enough to be read
    parts: Sequence[tuple[int, int]]  # where their first row group lies: offset, bytes


def footer(data: bytes, what: str) -> Footer:
    """Raises Unreadable and Lacking."""
    return Footer(**read("webapp.datasets.arrow_rows:parquet_footer", what, data, most_bytes=READ_BYTES))


def first_rows(
    store: Store,
    place: str,
    size: int,
    kind: Literal["parquet", "arrow"],
    parts: Iterable[tuple[int, int]],
    columns: Sequence[str] = (),
    *,
    what: str,
) -> FirstRows:
    """Of the file of `size` bytes, of which only these `parts` are read. Raises Unreadable and Lacking."""
    parts = list(parts)
    if any(offset < 0 or length < 0 or offset + length > size for offset, length in parts):
        raise Unreadable(what, f"its footer points outside of its {size:,} bytes")
    with tempfile.NamedTemporaryFile(prefix="trainmaster-preview-") as copy:
        copy.truncate(size)  # the rest of it takes no disk
        for offset, length in parts:
            copy.seek(offset)
            copy.write(store.read_range(place, offset, length))
        copy.flush()
        found = read(f"webapp.datasets.arrow_rows:{kind}_rows", what, path=copy.name, columns=list(columns))
        return FirstRows(**found)
