"""Eviction of models from a full disk: the least recently used go first.

A model that is pinned, active, the one active before, or just being received or removed is never evicted: a full disk
is an error with numbers, and better than a service without its model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Home:
    """One model on a disk. `size` is what its removal frees; `used_ms` is when it was last used."""

    id: str
    size: int
    used_ms: int
    pinned: bool = False
    active: bool = False  # or the one to which a node would go back
    under_way: bool = False
    preheated: bool = False  # nobody has asked to use it yet: it goes before what was used

    @property
    def kept(self) -> bool:
        return self.pinned or self.active or self.under_way


def evict(
    homes: Iterable[Home], free: int, size: int, low: int, high: int, coming: int = 0
) -> tuple[Home, ...]:
    """The homes to remove, in order, when more than `high` percent of the disk are in use, until `low` percent are.

    `free` and `size` are bytes of the disk; `coming` bytes are about to arrive and count as used. If they cannot fit
    whatever is removed, nothing is removed for them.
    """
    going = sorted(
        (home for home in homes if not home.kept),
        key=lambda home: (not home.preheated, home.used_ms, home.id),
    )
    if coming > free + sum(home.size for home in going):
        coming = 0
    in_use = size - free + coming
    if in_use * 100 <= size * high:
        return ()
    chosen = []
    for home in going:
        if in_use * 100 <= size * low:
            break
        if home.size:
            chosen.append(home)
            in_use -= home.size
    return tuple(chosen)
