"""The common values of the tree planners: where workers are, and from whom each receives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a worker in the network."""

    node: str
    rack: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One worker's place in the plan.

    The worker receives from the first of `predecessors` that is alive, else from the store. Links are ordered so that a
    worker comes after its predecessors.
    """

    node: str
    position: int
    predecessors: tuple[str, ...]


def in_rack_order(places: Iterable[Place]) -> list[str]:
    """Neighbours together: by block, then rack, then node."""
    return [place.node for place in sorted(places, key=lambda p: (p.block, p.rack, p.node))]


def crossings(links: Iterable[Link], places: Iterable[Place]) -> int:
    """How many copies cross between racks."""
    rack = {place.node: (place.block, place.rack) for place in places}
    return sum(bool(link.predecessors) and rack[link.node] != rack[link.predecessors[0]] for link in links)
