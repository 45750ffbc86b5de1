"""A batch read, decoded and collated: by the loop's thread, a thread ahead of it, or another process."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainmaster.data.quarantine import Quarantine, SetAside, ShardUnreadable
from trainmaster.data.sources import Source
from trainmaster.data.stream import ENDING


@dataclass(frozen=True, slots=True)
class Batch:
    """`content` is collated; of 0 samples it is None."""

    content: Any
    samples: int
    set_aside: tuple[SetAside, ...] = ()


@dataclass(slots=True)
class Reader:
    source: Source
    decode: Callable[[Any], Any] | None
    collate: Callable[[list[Any]], Any]
    limits: Quarantine
    dropped: Callable[[int], bool] | None = None  # samples that people have dropped
    unreadable: dict[str, str] = field(default_factory=dict)  # shards, with the reason

    def read(self, indices: Sequence[int]) -> Batch:
        """All at once; one by one only where that fails."""
        if self.dropped is not None:
            indices = [index for index in indices if not self.dropped(index)]
        try:
            samples = self._read_all(indices)
        except Exception:  # of whatever the source and the script raise; each sample is tried again by itself
            return self._read_apart(indices)
        return Batch(self.collate(samples) if samples else None, len(samples))

    def _read_all(self, indices: Sequence[int]) -> list[Any]:
        many = getattr(self.source, "__getitems__", None)
        samples = many(indices) if many is not None else [self.source[index] for index in indices]
        return [self.decode(sample) for sample in samples] if self.decode is not None else list(samples)

    def _read_apart(self, indices: Sequence[int]) -> Batch:
        samples, set_aside = [], []
        for index in indices:
            try:
                samples.append(self._retried(index))
            except ShardUnreadable as error:
                self.unreadable.setdefault(error.shard, error.reason)
                set_aside.append(SetAside(index, error.shard, error.reason))
            except Exception as error:  # of the decoder, the format, the disk
                set_aside.append(SetAside(index, "", f"{type(error).__name__}: {error}"))
        return Batch(self.collate(samples) if samples else None, len(samples), tuple(set_aside))

    def _retried(self, index: int) -> Any:
        for attempt in range(self.limits.retries):
            try:
                return self._read_all([index])[0]
            except Exception as error:
                if isinstance(error, ShardUnreadable) and error.shard in self.unreadable:
                    raise  # it was retried before
                time.sleep(self.limits.retry_seconds * 2**attempt)
        return self._read_all([index])[0]


def default_collate() -> Callable[[list[Any]], Any]:
    """Torch's where torch is installed, else the list as it is."""
    try:
        from torch.utils.data import default_collate as collate
    except ImportError:
        return list
    return collate


_reader: Reader | None = None  # of a worker process


def begin_process(reader: Reader, ending: ctypes.c_bool) -> None:
    """`ending`: of the process that this one reads for."""
    global _reader
    _reader, ENDING.flag = reader, ending


def read_in_process(indices: Sequence[int]) -> Batch:
    assert _reader is not None
    return _reader.read(indices)
