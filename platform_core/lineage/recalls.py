"""What a recall reaches, and what an endpoint falls back to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from platform_core.lineage.graph import Direction, Item, Kind, Tree

# What people may recall. Code, evaluations and services are what they are made of, or use.
RECALLABLE = frozenset({Kind.DATASET, Kind.RUN, Kind.CHECKPOINT, Kind.MODEL})


def marked(tree: Tree) -> frozenset[Item]:
    """The items from which nothing may be made any more: the bad one, and all that came of it.

    Raises ValueError for a tree that is not whole: a recall that leaves out one model is worth nothing.
    """
    if tree.direction is not Direction.DOWNSTREAM or tree.frontier or tree.left_out:
        raise ValueError("a recall needs everything that came of the item")
    return frozenset(item for item in tree.depths if item.kind in RECALLABLE)


@dataclass(frozen=True, slots=True)
class Version:
    id: str
    number: int
    is_usable: bool  # its files are there


def instead(served: int, versions: Iterable[Version], bad: Collection[str]) -> Version | None:
    """The newest version before the one that is served which may still be used; None where there is none."""
    earlier = [one for one in versions if one.number < served and one.is_usable and one.id not in bad]
    return max(earlier, key=lambda one: one.number, default=None)
