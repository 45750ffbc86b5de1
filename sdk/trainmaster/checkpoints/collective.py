"""Values exchanged between ranks. Without torch.distributed, or before it is initialised, a rank is alone.

All functions but `active`, `rank` and `world_size` are collectives: all ranks call them, in the same order, from the
main thread. They use a gloo group of their own, so they never wait for a GPU and never meet the training's collectives.
Threads use `channel()`, whose groups they own, and only through its methods: those outlive destroy_process_group().
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = timedelta(hours=1)  # the ranks of a save may finish that far from each other
_SENTENCE_BYTES = 2048
_groups: dict[str, Any] = {}
_world: weakref.ref[Any] | None = None  # weak: the threads of a group end with its last reference


def active() -> bool:
    """Whether torch.distributed is initialised with more than this process. Imports nothing."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    return bool(torch.distributed.get_world_size() > 1)


def world_size() -> int:
    return int(_distributed().get_world_size()) if active() else 1


def rank() -> int:
    return int(_distributed().get_rank()) if active() else 0


def maximum(values: Sequence[int]) -> list[int]:
    """The largest of each value over all ranks."""
    if not active():
        return list(values)
    torch: Any = sys.modules["torch"]
    votes = torch.tensor(list(values), dtype=torch.int64)
    _distributed().all_reduce(votes, op=_distributed().ReduceOp.MAX, group=_group("control"))
    return [int(vote) for vote in votes]


def any_true(flag: bool) -> bool:
    """Whether it is true on any rank."""
    return bool(maximum([flag])[0])


def everywhere(flag: bool) -> bool:
    """Whether it is true on all ranks."""
    return not any_true(not flag)


def to_all(value: T) -> list[T]:
    """The values of all ranks, in their order, on every rank."""
    if not active():
        return [value]
    gathered: list[Any] = [None] * world_size()
    _distributed().all_gather_object(gathered, value, group=_group("control"))
    return gathered


def to_first(value: T) -> list[T]:
    """On rank 0 the values of all ranks in their order, elsewhere nothing."""
    if not active():
        return [value]
    gathered: list[Any] | None = [None] * world_size() if rank() == 0 else None
    _distributed().gather_object(value, gathered, group=_group("control"))
    return gathered or []


def from_first(value: T, source: int = 0) -> T:
    """The value of rank 0, or of `source`, everywhere."""
    if not active():
        return value
    box: list[Any] = [value if rank() == source else None]
    _distributed().broadcast_object_list(box, src=source, group=_group("control"))
    received: T = box[0]
    return received


def scatter(values: Sequence[T]) -> T:
    """Rank 0's values, one to each rank. Elsewhere `values` does not matter."""
    if not active():
        return values[0]
    box: list[Any] = [None]
    _distributed().scatter_object_list(
        box, list(values) if rank() == 0 else None, src=0, group=_group("control")
    )
    received: T = box[0]
    return received


def first_sentence(sentence: str) -> str:
    """The sentence of the lowest rank that has one, on every rank; '' where none has."""
    if not any_true(bool(sentence)):
        return ""
    return next(filter(None, to_all(sentence)), "")


class Channel:
    """A gloo group for one thread of every rank, or nobody else where the rank is alone.

    It speaks to the group directly, as the functions of torch.distributed look groups up in tables that
    destroy_process_group() empties. A dead rank raises on the others.
    """

    def __init__(self, group: Any, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._group = group
        self._waiting = False
        _channels.add(self)

    def release(self) -> None:
        """Lets go of the group, unless a thread waits for it."""
        if not self._waiting:
            self._group = None

    def maximum(self, values: Sequence[int]) -> list[int]:
        if self._group is None:
            return list(values)
        import torch

        votes = torch.tensor(list(values), dtype=torch.int64)
        options = torch.distributed.AllreduceOptions()
        options.reduceOp = torch.distributed.ReduceOp.MAX  # type: ignore[assignment]
        self._wait(self._group.allreduce([votes], options))
        return [int(vote) for vote in votes]

    def first_sentence(self, sentence: str) -> str:
        """The sentence of the lowest rank that has one, on every rank; '' where none has."""
        if self._group is None:
            return sentence
        import torch

        [last_first] = self.maximum([self.size - self.rank if sentence else 0])
        if not last_first:
            return ""
        text = sentence.encode()[:_SENTENCE_BYTES].ljust(_SENTENCE_BYTES)
        block = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        options = torch.distributed.BroadcastOptions()
        options.rootRank = self.size - last_first
        self._wait(self._group.broadcast([block], options))
        return bytes(block.tolist()).decode(errors="replace").rstrip()

    def _wait(self, work: Any) -> None:
        """Sleeps in Python: a thread that waits in C++ aborts the process when the interpreter ends."""
        self._waiting = True
        pause = 0.0005
        while not work.is_completed():
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        self._waiting = False
        work.wait()


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


def channel(name: str) -> Channel:
    """A collective at the first call with this name."""
    return Channel(_group(name) if active() else None, rank(), world_size())


def _group(name: str) -> Any:
    global _world
    distributed = _distributed()
    world = distributed.group.WORLD
    if _world is None or _world() is not world:  # the first, or destroyed and initialised again
        _groups.clear()
        _world = weakref.ref(world)
        atexit.unregister(_release)
        atexit.register(_release)
    if name not in _groups:
        _groups[name] = distributed.new_group(backend="gloo", timeout=PATIENCE)
    return _groups[name]


def _release() -> None:
    """Ends our groups before the interpreter does: a thread of gloo that lets go of its last tensor while the
    interpreter is taken apart aborts the process."""
    for channel in list(_channels):
        channel.release()
    groups = list(_groups.values())
    _groups.clear()
    distributed = _distributed()
    while groups and distributed.is_initialized():
        with contextlib.suppress(Exception):  # it has gone already
            distributed.destroy_process_group(groups.pop())


def _distributed() -> Any:
    torch: Any = sys.modules["torch"]
    return torch.distributed
