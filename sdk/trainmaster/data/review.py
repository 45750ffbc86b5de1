"""What a loader sets aside is told to the platform, and what people have dropped there is left out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmaster.data.quarantine import SetAside
from trainmaster.environment import JobEnvironment
from trainmaster.spool import Spool

LONGEST_REASON = 500


class Review:
    """Of one loader on one rank."""

    def __init__(self, environment: JobEnvironment, source: Any, name: str, rank: int) -> None:
        folder = environment.folder
        self._spool = Spool(folder / "spool" / f"rank-{rank}.jsonl" if folder else None)
        self._data, self._source, self._name = environment.data, source, name
        self._shards = environment.dropped.shards
        self._samples = environment.dropped.of_loader(name, len(source))

    def tell(self, item: SetAside) -> None:
        facts = {"loader": self._name, "samples": len(self._source), "reason": item.reason[:LONGEST_REASON]}
        where = {"shard": self._named(item.shard)} if item.shard else {"sample": item.sample}
        self._spool.append({"kind": "set_aside", "at_ms": int(time.time() * 1000), **facts, **where})

    def is_known(self, shard: str) -> bool:
        """Whether people have dropped this shard."""
        return bool(shard) and self._named(shard) in self._shards

    def filter(self) -> Callable[[int], bool] | None:
        """Which samples are dropped; None: none, so that nobody needs to ask."""
        if not self._samples and not self._shards:
            return None
        return self._is_dropped

    def _is_dropped(self, index: int) -> bool:
        if index in self._samples:
            return True
        shard_of = getattr(self._source, "shard_of", None)
        return shard_of is not None and self._named(shard_of(index)) in self._shards

    def _named(self, shard: str) -> str:
        """By its path within the dataset, which is the same on all nodes."""
        path = Path(shard)
        if self._data is not None and path.is_absolute() and path.is_relative_to(self._data):
            return path.relative_to(self._data).as_posix()
        return shard
