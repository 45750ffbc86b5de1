"""As much of a Parquet or Arrow file as its first rows need, brought from the store and read beside the web process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainmaster.store import Store
from webapp import ROOT

READ_BYTES = 16 * 2**20
SECONDS = 20
MEMORY_BYTES = 2**30  # of addresses, for the process that reads; its libraries take a half


@dataclass(frozen=True, slots=True)
class FirstRows:
    types: Mapping[str, str]  # of every column
    rows: Sequence[Mapping[str, Any]]  # columns that were not read are not in them


def first_rows(
    store: Store,
    place: str,
    size: int,
    kind: str,
    parts: Iterable[tuple[int, int]],
    columns: Sequence[str] = (),
) -> FirstRows | None:
    """Of the file of `size` bytes, of which only these `parts` (offset, bytes) are read. None where it cannot be."""
    with tempfile.NamedTemporaryFile(prefix="trainmaster-preview-") as copy:
        copy.truncate(size)  # the rest of it takes no disk
        for offset, length in parts:
            copy.seek(offset)
            copy.write(store.read_range(place, offset, length))
        copy.flush()
        program = [sys.executable, "-m", "webapp.datasets.arrow_rows"]
        command = [*program, kind, copy.name, json.dumps(list(columns)), str(MEMORY_BYTES)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
            return FirstRows(**json.loads(done.stdout))
        except (subprocess.SubprocessError, ValueError, TypeError):
            return None
