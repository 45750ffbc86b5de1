"""Rows of Parquet files, where pyarrow is installed."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainmaster.data.quarantine import ShardUnreadable
from trainmaster.data.sources import Paths, Shards, tell_once
from trainmaster.data.stream import wait_for


class Parquet(Shards):
    """A sample is a row, as a dict by column.

    A row is read with its whole row group. `groups` of them stay in memory: write small ones for a shuffled order.
    """

    def __init__(self, paths: Paths, columns: Sequence[str] | None = None, groups: int = 16) -> None:
        self._columns, self._most = list(columns) if columns is not None else None, groups
        self._forget()
        super().__init__(paths)

    def _forget(self) -> None:
        self._read: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._lock = threading.Lock()

    def _index(self, path: str) -> tuple[int, list[int]]:
        """Rows up to the end of each row group."""
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if sum(rows) != metadata.num_rows:
            told = f"says that it has {metadata.num_rows:,} rows, and its row groups have {sum(rows):,}"
            tell_once(f"shard {path} {told}; those of the row groups are read")
        return sum(rows), np.cumsum(rows).tolist()

    def __getitem__(self, index: int) -> dict[str, Any]:
        shard, row = self._place(index)
        ends = self._index_of(shard)
        group = bisect_right(ends, row)
        table = self._group(shard, group)
        return dict(table.slice(row - (ends[group - 1] if group else 0), 1).to_pylist()[0])

    def _group(self, shard: int, group: int) -> Any:
        from pyarrow import parquet

        with self._lock:
            if (shard, group) in self._read:
                self._read.move_to_end((shard, group))
                return self._read[shard, group]
        path = self._paths[shard]
        wait_for(path)
        try:
            with parquet.ParquetFile(path) as file:
                table = file.read_row_group(group, columns=self._columns)
        except OSError as error:  # pyarrow's are of this kind
            raise ShardUnreadable(path, str(error)) from error
        with self._lock:
            self._read[shard, group] = table
            while len(self._read) > self._most:
                self._read.popitem(last=False)
        return table

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_read")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()
