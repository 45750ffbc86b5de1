"""Values exchanged between ranks. Without torch.distributed, or before it is initialised, a rank is alone.

`any_true`, `to_first` and `from_first` are collectives: all ranks call them, in the same order.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

T = TypeVar("T")


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


def any_true(flag: bool) -> bool:
    """Whether it is true on any rank."""
    if not active():
        return flag
    torch: Any = sys.modules["torch"]
    # NCCL moves tensors on GPUs only.
    device = "cuda" if _distributed().get_backend() == "nccl" else "cpu"
    votes = torch.tensor([int(flag)], device=device)
    _distributed().all_reduce(votes, op=_distributed().ReduceOp.MAX)
    return bool(votes.item())


def to_first(value: T) -> list[T]:
    """On rank 0 the values of all ranks in their order, elsewhere nothing."""
    if not active():
        return [value]
    gathered: list[Any] | None = [None] * world_size() if rank() == 0 else None
    _distributed().gather_object(value, gathered)
    return gathered or []


def from_first(value: T) -> T:
    """Rank 0's value, everywhere."""
    if not active():
        return value
    box: list[Any] = [value if rank() == 0 else None]
    _distributed().broadcast_object_list(box)
    received: T = box[0]
    return received


def everywhere(flag: bool) -> bool:
    """Whether it is true on all ranks."""
    return not any_true(not flag)


def _distributed() -> Any:
    torch: Any = sys.modules["torch"]
    return torch.distributed
