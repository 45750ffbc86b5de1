"""GPUs that replicas share: a slot may be an equal part of the memory of one. Its type says so: h100-80gb-1of4."""

from __future__ import annotations

import re

MOST_SHARES = 8
OWN_BYTES = 600 << 20  # of a CUDA context and its libraries, which no allocator counts
_SHARED = re.compile(r"[a-z0-9-]+-1of(\d+)")


def shared_type(gpu_type: str, shares: int) -> str:
    return gpu_type if shares == 1 else f"{gpu_type}-1of{shares}"


def shares_of(gpu_type: str) -> int:
    """How many slots of this type a GPU has; 1: the slot is a whole GPU."""
    match = _SHARED.fullmatch(gpu_type)
    return int(match[1]) if match else 1


def larger(gpu_type: str, slots: int) -> str:
    """The type of which one slot has at least as much of a GPU as so many of this one."""
    shares = shares_of(gpu_type)
    whole = gpu_type.rpartition("-1of")[0] if shares > 1 else gpu_type
    return shared_type(whole, max(1, shares // slots))


def allocator_share(share: float, total_bytes: int) -> float:
    """What part of a GPU's memory the allocator of a process may take, so that all of the process stays in its share.

    Raises ValueError where the share has no room for a CUDA context.
    """
    part = share - OWN_BYTES / total_bytes
    if part <= 0:
        have, need = round(share * total_bytes) >> 20, OWN_BYTES >> 20
        raise ValueError(f"a share of {have:,} MiB has no room for a model: CUDA itself takes {need} MiB")
    return part
