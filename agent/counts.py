"""How many samples the shards of a dataset have, as jobs of a team on this node have counted them.

What a job wrote is not trusted: it is checked against the files of the dataset, and given to jobs of the same team.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agent.files import read_json, write_atomically
from agent.job_files import JobPath

MOST_KEPT = 200  # datasets
MOST_FILES, LONGEST = 1_000, 64 << 20  # that jobs wrote, and bytes of one
MOST_KINDS = 20

Counts = dict[str, dict[str, int]]  # by reader and path


class KeptCounts:
    def __init__(self, folder: Path, team: str, manifest_id: str) -> None:
        self._folder, self._file = folder, folder / f"{team}-{manifest_id}.json"

    def read(self) -> Counts:
        return dict(read_json(self._file) or {})

    def add(self, given: JobPath, paths: Collection[str]) -> None:
        """What is known already stays."""
        counts = self.read()
        known = sum(map(len, counts.values()))
        for kind, path, count in _lines(given):
            if path in paths and (kind in counts or len(counts) < MOST_KINDS):
                counts.setdefault(kind, {}).setdefault(path, count)
        if sum(map(len, counts.values())) > known:
            self._folder.mkdir(exist_ok=True)
            write_atomically(self._file, json.dumps(counts).encode())
            oldest_last = sorted(self._folder.glob("*.json"), key=lambda file: -file.stat().st_mtime)
            for file in oldest_last[MOST_KEPT:]:
                file.unlink(missing_ok=True)


def _lines(given: JobPath) -> Iterator[tuple[str, str, int]]:
    for name in given.entries(MOST_FILES):
        for line in (given / name).read(0, LONGEST).splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                kind, path, count = json.loads(line)
                if isinstance(kind, str) and isinstance(path, str) and type(count) is int and count >= 0:
                    yield kind[:100], path, count
