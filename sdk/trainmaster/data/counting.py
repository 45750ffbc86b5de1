"""How many samples each shard of a streamed dataset has, where nobody wrote that down: the ranks of a node count.

Each rank notes what it has counted in a file of its own in the job's folder `counts`, and passes over what others have
noted. The agent keeps the counts for the next attempts of the team on this node, and gives them back in `counts.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainmaster.data.stream import Stream

AHEAD = 8  # shards that come while one is counted
UNREADABLE = -1


class Counts:
    """`kind` is the reader that counts: a line is no member of a tar file."""

    def __init__(self, its: Stream, folder: Path, kind: str, rank: int, world_size: int) -> None:
        self._stream, self._folder, self._kind = its, folder, kind
        self._rank, self._share = rank, rank / max(1, world_size)
        self._known: dict[str, int] = its.kept_counts(kind)
        self._read: dict[str, int] = {}  # of each file of the folder, how far it was read

    def count(self, paths: Sequence[str], index: Callable[[str], int]) -> dict[str, int | str]:
        """Samples of each of these shards, or why it cannot be read. `index` counts one that is here."""
        begin = int(self._share * len(paths))
        order = [*paths[begin:], *paths[:begin]]  # so that the ranks of a node count different ones
        reasons: dict[str, str] = {}
        for position, path in enumerate(order):
            name = self._stream.name_of(path)
            if self._look(name) is not None:
                continue
            ahead = [self._stream.name_of(each) for each in order[position + 1 :]]
            missing = [each for each in ahead if each not in self._known][:AHEAD]
            self._stream.ask(f"rank-{self._rank}-count", [name], missing)
            try:
                self._stream.wait(path)
                found = index(path)
            except Exception as error:  # of a library that reads the format
                reasons[name], found = f"{type(error).__name__}: {error}", UNREADABLE
            self._note(name, found)
        self._stream.ask_no_more(f"rank-{self._rank}-count")
        return {path: self._result(self._stream.name_of(path), reasons) for path in paths}

    def _result(self, name: str, reasons: dict[str, str]) -> int | str:
        count = self._known[name]
        return (
            count if count != UNREADABLE else reasons.get(name, "another rank of this node could not read it")
        )

    def _look(self, name: str) -> int | None:
        if name not in self._known:
            for key, count in self._news():
                self._known.setdefault(key, count)
        return self._known.get(name)

    def _news(self) -> Iterator[tuple[str, int]]:
        """What the ranks of this node have noted since the last look, whole lines only."""
        for file in sorted(self._folder.glob("*.jsonl")):
            with suppress(OSError), file.open("rb") as opened:
                opened.seek(self._read.get(file.name, 0))
                lines = opened.read().rpartition(b"\n")[0]
                self._read[file.name] = self._read.get(file.name, 0) + len(lines) + bool(lines)
                for line in lines.splitlines():
                    kind, name, count = json.loads(line)
                    if kind == self._kind:
                        yield name, count

    def _note(self, name: str, count: int) -> None:
        self._known[name] = count
        self._folder.mkdir(exist_ok=True)
        line: list[Any] = [self._kind, name, count]
        with (self._folder / f"rank-{self._rank}-{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
