"""The graph of origins, grown one generation at a time from one item, upstream or downstream."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Kind(StrEnum):
    DATASET = "dataset"  # a snapshot
    CODE = "code"  # a bundle
    RUN = "run"  # of a job, or of a process outside the platform
    CHECKPOINT = "checkpoint"
    MODEL = "model"  # a version
    EVALUATION = "evaluation"
    DEPLOYMENT = "deployment"
    ENDPOINT = "endpoint"


# What may come directly from what. Anything else is a mistake of the shell, and refused.
DERIVED: Mapping[Kind, frozenset[Kind]] = {
    Kind.DATASET: frozenset({Kind.DATASET, Kind.RUN}),
    Kind.CODE: frozenset({Kind.RUN}),
    Kind.RUN: frozenset({Kind.CHECKPOINT, Kind.MODEL, Kind.EVALUATION}),
    Kind.CHECKPOINT: frozenset({Kind.RUN, Kind.MODEL}),
    Kind.MODEL: frozenset({Kind.RUN, Kind.EVALUATION, Kind.DEPLOYMENT, Kind.ENDPOINT}),
    Kind.EVALUATION: frozenset(),
    Kind.DEPLOYMENT: frozenset(),
    Kind.ENDPOINT: frozenset(),
}


class Direction(StrEnum):
    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


@dataclass(frozen=True, slots=True, order=True)
class Item:
    kind: Kind
    id: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.id}"


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    source: Item
    derived: Item

    def __post_init__(self) -> None:
        if self.derived.kind not in DERIVED[self.source.kind]:
            raise ValueError(f"{self.derived} cannot come directly from {self.source}")


@dataclass(frozen=True, slots=True)
class Tree:
    """What is known of one item's origins, or of what came of it.

    `depths` has every item that was reached with its fewest steps from the start; `frontier` those whose neighbours
    nobody has looked up yet.
    """

    start: Item
    direction: Direction
    depths: Mapping[Item, int]
    edges: frozenset[Edge] = field(default_factory=frozenset)
    frontier: tuple[Item, ...] = ()
    left_out: int = 0  # items that were not followed, because there were more than the limit

    @property
    def items(self) -> tuple[Item, ...]:
        """Without the start, nearest first."""
        reached = (item for item in self.depths if item != self.start)
        return tuple(sorted(reached, key=lambda item: (self.depths[item], item)))


def plant(start: Item, direction: Direction) -> Tree:
    return Tree(start, direction, {start: 0}, frontier=(start,))


def grow(tree: Tree, edges: Iterable[Edge], limit: int) -> Tree:
    """The tree with the neighbours of its frontier; an item that is known already is not looked up again.

    At most `limit` items are kept; what does not fit is counted. Raises ValueError for an edge that does not touch
    the frontier on its near side.
    """
    near, far = ("derived", "source") if tree.direction is Direction.UPSTREAM else ("source", "derived")
    asked = frozenset(tree.frontier)
    depths = dict(tree.depths)
    kept = set(tree.edges)
    left_out: set[Item] = set()
    new: list[Item] = []
    for edge in sorted(set(edges)):
        here, there = getattr(edge, near), getattr(edge, far)
        if here not in asked:
            raise ValueError(f"{edge.source} → {edge.derived} was not asked for")
        if there not in depths:
            if len(depths) > limit:
                left_out.add(there)
                continue
            depths[there] = depths[here] + 1
            new.append(there)
        kept.add(edge)
    return replace(
        tree,
        depths=depths,
        edges=frozenset(kept),
        frontier=tuple(new),
        left_out=tree.left_out + len(left_out),
    )


def without(tree: Tree, hidden: Collection[Item]) -> Tree:
    """The tree for somebody who may not see these items: they go, and so does what is reached through them only."""
    gone = frozenset(hidden) - {tree.start}
    by_near: dict[Item, list[Edge]] = {}
    for edge in tree.edges:
        if gone.isdisjoint((edge.source, edge.derived)):
            by_near.setdefault(_near(tree, edge), []).append(edge)
    shown = plant(tree.start, tree.direction)
    while shown.frontier:
        shown = grow(
            shown, [edge for item in shown.frontier for edge in by_near.get(item, ())], len(tree.depths)
        )
    return replace(shown, left_out=tree.left_out)


def _near(tree: Tree, edge: Edge) -> Item:
    return edge.derived if tree.direction is Direction.UPSTREAM else edge.source
