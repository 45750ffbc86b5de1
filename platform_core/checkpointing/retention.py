"""Retention of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint in the store. `pinned`: something else needs it, such as a model version."""

    id: str
    attempt: int
    step: int
    pinned: bool = False
    good: bool = True  # its bytes match its manifest


def newest_first(kept: Iterable[Kept]) -> list[Kept]:
    """By attempt first: after a resume from an older one, a lower step can be the newer checkpoint.

    Not by time, for each node has a clock of its own.
    """
    return sorted(kept, key=lambda one: (one.attempt, one.step, one.id), reverse=True)


def to_delete(kept: Iterable[Kept], keep_last: int) -> tuple[str, ...]:
    """The ids that may be deleted, oldest first.

    The newest `keep_last` good ones stay, and at least one whatever the number says; pinned ones stay always.
    Damaged ones go, for they would only take the place of a good one.
    """
    places = max(1, keep_last)
    surplus: list[str] = []
    for one in newest_first(kept):
        if one.good and places > 0:
            places -= 1
        elif not one.pinned:
            surplus.append(one.id)
    return tuple(reversed(surplus))
