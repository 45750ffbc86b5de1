"""How far the server has acknowledged each file of an attempt, kept beside the files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent.files import read_json, write_atomically


class Source(StrEnum):
    LOG = "log"
    SPOOL = "spool"
    CHECKPOINT = "checkpoint"
    ARTIFACT = "artifact"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a log that were given up because the server was away for too long."""

    start: int
    end: int


class Cursors:
    """Offsets, and the ends of the batches under way.

    A batch that is sent again, even by the next agent, must be the same batch: the server recognises it by
    its offset alone, so a longer one would lose its tail. That is why an end is on disk (`flush`) before its
    batch is sent. A lost write otherwise only makes a batch go up again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dirty = False
        try:
            self._read(read_json(path) or {})
        except (TypeError, ValueError, AttributeError):  # damaged: all of it goes up again
            self._read({})

    def _read(self, document: dict[str, Any]) -> None:
        self._offsets = {str(key): int(end) for key, end in document.get("offsets", {}).items()}
        self._planned = {str(key): int(end) for key, end in document.get("planned", {}).items()}
        gaps = document.get("gaps", {}).items()
        self._gaps = {str(key): Gap(int(start), int(end)) for key, (start, end) in gaps}

    def offset(self, source: Source, rank: int) -> int:
        return self._offsets.get(f"{source}:{rank}", 0)

    def planned(self, source: Source, rank: int) -> int | None:
        """Where the batch that begins at `offset` ends, if it was made before."""
        return self._planned.get(f"{source}:{rank}")

    def plan(self, source: Source, rank: int, end: int) -> None:
        self._planned[f"{source}:{rank}"] = end
        self._dirty = True

    def move(self, source: Source, rank: int, offset: int) -> None:
        self._offsets[f"{source}:{rank}"] = offset
        self._planned.pop(f"{source}:{rank}", None)
        self._dirty = True

    def gap(self, rank: int) -> Gap | None:
        return self._gaps.get(str(rank))

    def set_gap(self, rank: int, gap: Gap) -> None:
        self._gaps[str(rank)] = gap
        self._dirty = True

    def flush(self) -> None:
        if not self._dirty or not self._path.parent.is_dir():
            return  # nothing new, or the attempt has been forgotten meanwhile
        gaps = {key: (gap.start, gap.end) for key, gap in self._gaps.items()}
        document = {"offsets": self._offsets, "planned": self._planned, "gaps": gaps}
        write_atomically(self._path, json.dumps(document).encode())
        self._dirty = False
