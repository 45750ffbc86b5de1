"""A dataset whose files come to this node while the job runs: which there will be, and waiting for those to come."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from multiprocessing.context import BaseContext
from pathlib import Path, PurePosixPath
from typing import Any

from platform_core.loading.ahead import INDEX_FILE
from platform_core.loading.shards import ShardOrder
from trainmaster.data.quarantine import ShardUnreadable
from trainmaster.environment import job_environment

LOOK_EVERY_SECONDS = 0.02
GROUPS_AHEAD = 4


class _Ending:
    """Whether this process is about to end: what is read ahead then has no reader, and its shard may never come.

    Threads of executors are joined at the end of a process, so one that waited would keep a rank from its end.
    """

    def __init__(self) -> None:
        self.flag = ctypes.c_bool(False)  # in a process that reads for another, that one's
        self._flags = [self.flag]
        # Before executors join their threads, as executors themselves do it; atexit comes after that.
        threading._register_atexit(self._end)  # type: ignore[attr-defined]

    def shared(self, context: BaseContext) -> ctypes.c_bool:
        """A flag for processes that read for this one. It has no lock, which one that was killed would keep."""
        self._flags.append(context.RawValue(ctypes.c_bool, False))
        return self._flags[-1]

    def _end(self) -> None:
        for flag in self._flags:
            flag.value = True


ENDING = _Ending()


class Stream:
    """The agent writes what is in the folder; loaders write what they need next where the agent reads it."""

    def __init__(self, folder: Path, asks: Path) -> None:
        self._folder, self._asks = folder, asks
        self._sizes: Mapping[str, int] = json.loads((folder / "listing.json").read_bytes())["files"]
        self._refused: Mapping[str, str] = {}
        self._refused_ns = 0

    def name_of(self, path: str | Path) -> str:
        """The path within the dataset; "" for what is not a file of it."""
        try:
            name = Path(path).absolute().relative_to(self._folder / "files").as_posix()
        except ValueError:
            return ""
        return name if name in self._sizes else ""

    def size(self, path: str) -> int | None:
        return self._sizes.get(self.name_of(path))

    def matching(self, pattern: Path) -> list[str]:
        """The files of the dataset that match, here or not; [] for a pattern of another place."""
        files = self._folder / "files"
        try:
            inner = pattern.absolute().relative_to(files)
        except ValueError:
            return []
        return [str(files / name) for name in sorted(self._sizes) if _matches(name, inner.parts)]

    def wait(self, path: str | Path) -> None:
        """Until the file is here. Raises ShardUnreadable where it cannot be had."""
        name = self.name_of(path)
        while name and not os.path.exists(path):
            if reason := self._reason(name):
                raise ShardUnreadable(str(path), reason)
            if ENDING.flag.value:
                raise ShardUnreadable(str(path), "it had not come when the process ended")
            time.sleep(LOOK_EVERY_SECONDS)

    def samples(self) -> Mapping[str, int]:
        """How many samples shards have, where the dataset has an index of that."""
        if INDEX_FILE not in self._sizes:
            return {}
        file = self._folder / "files" / INDEX_FILE
        self.wait(file)
        return {str(name): int(count) for name, count in json.loads(file.read_bytes())["samples"].items()}

    def kept_counts(self, kind: str) -> dict[str, int]:
        """How many samples shards have for this reader, as earlier attempts on this node have counted."""
        try:
            return dict(json.loads((self._folder / "counts.json").read_bytes()).get(kind, {}))
        except FileNotFoundError:
            return {}

    def ask_no_more(self, loader: str) -> None:
        (self._asks / f"{loader}.json").unlink(missing_ok=True)

    def ask(self, loader: str, now: list[str], ahead: list[str]) -> None:
        new = self._asks / f".{loader}.{os.getpid()}"
        new.write_text(json.dumps({"now": now, "ahead": ahead}))
        os.replace(new, self._asks / f"{loader}.json")

    def _reason(self, name: str) -> str:
        file = self._folder / "failed.json"
        try:
            changed = file.stat().st_mtime_ns
        except OSError:
            return ""
        if changed != self._refused_ns:
            self._refused, self._refused_ns = json.loads(file.read_bytes()), changed
        return self._refused.get(name, "")


def stream() -> Stream | None:
    """Of this job; None where its files are all here."""
    environment = job_environment()
    if environment.stream is None or environment.folder is None:
        return None
    return _opened(environment.stream, environment.folder / "asks")


def wait_for(path: str | Path) -> Path:
    """The file, as soon as it is here: for a source of your own, where the job has `stream_dataset`."""
    if (its := stream()) is not None:
        its.wait(path)
    return Path(path)


def write_index(folder: str | Path, *sources: Any) -> Path:
    """Notes in the folder of a dataset how many samples each shard has, before it is pushed or registered.

    With it a job that streams the dataset knows the order of all samples before the shards have come.
    """
    root = Path(folder).absolute()
    samples = {
        Path(path).absolute().relative_to(root).as_posix(): count
        for source in sources
        for path, count in source.shards()
    }
    file = root / INDEX_FILE
    file.write_text(json.dumps({"samples": samples}, indent=0))
    return file


class Ahead:
    """Tells the agent which shards one loader reads next, each time that it comes to other ones."""

    def __init__(self, its: Stream, source: Any, loader: str) -> None:
        self._stream, self._loader = its, loader
        shards = getattr(source, "shards", tuple)
        self._paths = [path for path, _ in shards()]
        self._told: object = None

    def tell(self, order: ShardOrder, position: int, planned: int) -> None:
        """`position`: of the next batch; `planned`: up to where batches may be read already."""
        current, last = order.group(position), order.group(planned)
        if (current, last) == self._told:
            return
        self._told = current, last
        groups = _groups(order, current, last)
        now = self._names(order, groups[: len(groups) - GROUPS_AHEAD])
        self._stream.ask(self._loader, now, self._names(order, groups[len(groups) - GROUPS_AHEAD :]))

    def _names(self, order: ShardOrder, groups: Iterable[tuple[int, int]]) -> list[str]:
        shards = dict.fromkeys(shard for epoch, group in groups for shard in order.shards(epoch, group))
        return [name for shard in shards if (name := self._stream.name_of(self._paths[shard]))]


def _groups(order: ShardOrder, current: tuple[int, int], last: tuple[int, int]) -> list[tuple[int, int]]:
    """From the one to the other, and some more."""
    groups, (epoch, group), more = [current], current, GROUPS_AHEAD
    while more:
        more -= (epoch, group) >= last
        epoch, group = (epoch, group + 1) if order.shards(epoch, group + 1) else (epoch + 1, 0)
        groups.append((epoch, group))
    return groups


@lru_cache(maxsize=4)
def _opened(folder: Path, asks: Path) -> Stream:
    return Stream(folder, asks)


def _matches(name: str, pattern: tuple[str, ...]) -> bool:
    """As a glob of the folder would find it: ** stands for any number of folders."""
    return _parts_match(PurePosixPath(name).parts, pattern)


def _parts_match(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_parts_match(parts[begin:], pattern[1:]) for begin in range(len(parts) + 1))
    return bool(parts) and PurePosixPath(parts[0]).match(pattern[0]) and _parts_match(parts[1:], pattern[1:])
