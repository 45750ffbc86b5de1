"""Where samples come from: anything with a length and an item by index. Those here are safe in threads."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from platform_core.loading.shards import AT_ONCE
from trainmaster.console import warn
from trainmaster.data.counting import Counts
from trainmaster.data.quarantine import SetAside, ShardUnreadable
from trainmaster.data.stream import Stream, stream, wait_for
from trainmaster.environment import job_environment

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Paths = str | Path | Iterable[str | Path]

_SCAN_BYTES = 16 << 20
_ATTEMPTS, _PAUSE_SECONDS = 3, 0.1  # to open a shard
_NEWLINE, _BLANKS, _MARK = 10, b" \t\r", b"\xef\xbb\xbf"
_MOST_INDICES, _MOST_MAPS = 256, 2 * AT_ONCE  # of a dataset that is streamed


class Source(Protocol):
    """A map-style dataset of torch is one. `__getitem__` may raise ShardUnreadable; any other error is of the sample.

    Optional: `__getitems__(indices)` reads many at once, `unreadable` lists shards that could not be opened,
    `shard_of(index)` names the shard of a sample, `shards()` gives each with its number of samples, `ends` the samples
    up to the end of each.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Shards:
    """Files that are indexed when the source is made. One that cannot be indexed after retries is set aside.

    Of a dataset that is streamed, a shard whose number of samples is known is indexed when it is read first.
    """

    shards_at_once = AT_ONCE

    def __init__(self, paths: Paths) -> None:
        self._paths: list[str] = []
        self._ends: list[int] = []  # samples up to the end of each shard
        self._indices: dict[int, Any] = {}  # of each shard, what finds its samples
        self.unreadable: list[SetAside] = []
        its, every = stream(), paths_of(paths)
        counts = self._counts(its, every) if its is not None else {}
        for path in every:
            count = counts.get(path)
            if count is None:
                count = self._indexed(path)
            if isinstance(count, str):
                self.unreadable.append(SetAside(None, path, count))
                continue
            self._paths.append(path)
            self._ends.append((self._ends[-1] if self._ends else 0) + count)

    def _indexed(self, path: str) -> int | str:
        """The number of samples of this shard, which is the next one; or why it cannot be read."""
        try:
            count, self._indices[len(self._paths)] = opened(lambda: self._index(path))
        except Exception as error:  # of a library that reads the format
            return f"{type(error).__name__}: {error}"
        return count

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def ends(self) -> NDArray[np.int64]:
        return np.array(self._ends, np.int64)

    def shards(self) -> Iterator[tuple[str, int]]:
        """Each with its number of samples."""
        return zip(self._paths, np.diff(self.ends, prepend=0).tolist(), strict=True)

    def shard_of(self, index: int) -> str:
        return self._paths[self._place(index)[0]]

    def _index(self, path: str) -> tuple[int, Any]:
        """The number of samples of this shard, and what is needed to find them."""
        raise NotImplementedError

    def _counts(self, its: Stream, paths: Sequence[str]) -> dict[str, int | str]:
        """Samples of each shard of a dataset that is streamed, or why it cannot be read: by the index of the dataset,
        by its size, or counted by the ranks of this node as the shards come by."""
        known: Mapping[str, int] = its.samples()
        counts: dict[str, int | str] = {}
        for path in paths:
            name = its.name_of(path)
            count = known.get(name) if name else None
            if (count := self._count(its, path) if count is None else count) is not None:
                counts[path] = count
        environment = job_environment()
        missing = [path for path in paths if its.name_of(path) and path not in counts]
        if missing and environment.folder is not None:
            folder, kind = environment.folder / "counts", type(self).__name__
            counting = Counts(its, folder, kind, environment.rank, environment.world_size)
            counts |= counting.count(missing, lambda path: opened(lambda: self._index(path))[0])
        return counts

    def _count(self, its: Stream, path: str) -> int | None:
        """The number of samples of a shard that is not here yet, where its size says it."""
        return None

    def _index_of(self, shard: int) -> Any:
        index = self._indices.get(shard)
        if index is None:
            path = self._paths[shard]
            wait_for(path)
            count, index = opened(lambda: self._index(path))
            expected = self._ends[shard] - (self._ends[shard - 1] if shard else 0)
            if count != expected:
                reason = f"it has {count:,} samples, and {expected:,} were counted; write the index of the dataset anew"
                raise ShardUnreadable(path, reason)
            while len(self._indices) >= _MOST_INDICES:  # those of shards that may be gone
                self._indices.pop(next(iter(self._indices)), None)
            self._indices[shard] = index
        return index

    def _place(self, index: int) -> tuple[int, int]:
        """The number of the shard, and the sample within it."""
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        shard = bisect_right(self._ends, index)
        return shard, index - (self._ends[shard - 1] if shard else 0)


class Files:
    """A file a sample, as bytes."""

    shards_at_once = 1024  # each is a shard of one sample

    def __init__(self, paths: Paths) -> None:
        self.paths = paths_of(paths)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def ends(self) -> NDArray[np.int64]:
        return np.arange(1, len(self.paths) + 1)

    def shards(self) -> Iterator[tuple[str, int]]:
        return ((path, 1) for path in self.paths)

    def __getitem__(self, index: int) -> bytes:
        return wait_for(self.paths[index]).read_bytes()


class JsonLines(Shards):
    """A line a sample, as bytes; `decode=json.loads` makes a value of it. Empty and blank lines are no samples."""

    def _index(self, path: str) -> tuple[int, NDArray[np.int64]]:
        """Begin and end of each line."""
        ends: list[NDArray[np.int64]] = []
        size = 0
        with open(path, "rb") as file:
            while chunk := file.read(_SCAN_BYTES):
                ends.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE) + size)
                size += len(chunk)
        stops = np.concatenate([*ends, np.array([size])]).astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1])
        lines = np.stack([starts, stops], axis=1)[stops > starts]
        if len(lines):
            content = np.memmap(path, np.uint8, "r")
            if bytes(content[: len(_MARK)]) == _MARK:  # of the encoding, as Windows writes it
                lines[0, 0] = min(len(_MARK), lines[0, 1])
            lines = lines[~_are_blank(content, lines)]
        return len(lines), lines

    def __getitem__(self, index: int) -> bytes:
        shard, line = self._place(index)
        start, stop = self._index_of(shard)[line]
        return read_part(self._paths[shard], int(start), int(stop - start))


def _are_blank(content: NDArray[np.uint8], lines: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which lines hold nothing but what JSON takes for blanks, such as the CR of an empty line of Windows."""
    blank = lines[:, 0] >= lines[:, 1]
    first = content[np.minimum(lines[:, 0], len(content) - 1)]
    for line in np.flatnonzero(~blank & np.isin(first, np.frombuffer(_BLANKS, np.uint8))).tolist():
        start, stop = lines[line].tolist()
        blank[line] = not bytes(content[start:stop]).strip(_BLANKS)
    return blank


class TokenBins(Shards):
    """Files of token numbers, mapped into memory. A sample is `length` + 1 tokens: inputs, and targets one later."""

    def __init__(self, paths: Paths, length: int, dtype: str = "uint16") -> None:
        self._length, self._dtype = length, np.dtype(dtype)
        self._maps: dict[str, NDArray[Any]] = {}
        super().__init__(paths)

    def _index(self, path: str) -> tuple[int, None]:
        return self._samples_in(os.path.getsize(path)), None

    def _count(self, its: Stream, path: str) -> int | None:
        size = its.size(path)
        return self._samples_in(size) if size is not None else None

    def _samples_in(self, size: int) -> int:
        return max(0, (size // self._dtype.itemsize - 1) // self._length)

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        shard, sample = self._place(index)
        start = sample * self._length
        return self._map(self._paths[shard])[start : start + self._length + 1].astype(np.int64)

    def _map(self, path: str) -> NDArray[Any]:
        mapped = self._maps.get(path)
        if mapped is None:
            wait_for(path)
            try:
                mapped = np.memmap(path, self._dtype, "r")
            except (OSError, ValueError) as error:
                raise ShardUnreadable(path, str(error)) from error
            while (
                stream() is not None and len(self._maps) >= _MOST_MAPS
            ):  # a map keeps the disk of a deleted file
                self._maps.pop(next(iter(self._maps)), None)
            self._maps[path] = mapped
        return mapped

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": {}}  # a process maps for itself


def read_part(path: str, offset: int, size: int) -> bytes:
    """Bytes of a shard; ShardUnreadable where it cannot be opened or ends before them."""
    wait_for(path)
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            data = os.pread(file, size, offset)
        finally:
            os.close(file)
    except OSError as error:
        raise ShardUnreadable(path, error.strerror or str(error)) from error
    if len(data) != size:
        raise ShardUnreadable(
            path, f"it ends at byte {offset + len(data):,}; it was longer when it was opened"
        )
    return data


@lru_cache(maxsize=1_000)
def tell_once(sentence: str) -> None:
    """A shard is indexed as often as it comes by."""
    warn(sentence)


def opened(index: Callable[[], T]) -> T:
    """With retries, as a store over a network may be away for a moment."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return index()
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(_PAUSE_SECONDS * attempt)
    return index()


def paths_of(pattern: Paths) -> list[str]:
    """Files by a path, a pattern such as data/*.tar, or a list of paths; sorted where a pattern finds them."""
    if not isinstance(pattern, str | Path):
        return [str(path) for path in pattern]
    path = Path(pattern)
    if (its := stream()) is not None and (found := its.matching(path)):
        return found
    if path.exists() or not any(letter in str(pattern) for letter in "*?["):
        return [str(path)]
    root = Path(path.anchor or ".")
    found = sorted(map(str, root.glob(str(path.relative_to(root)) if path.anchor else str(path))))
    if not found:
        raise FileNotFoundError(f"No file matches {pattern}.")
    return found
