"""What the planners of trees have in common: where workers stand, and from whom each receives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker stands."""

    node: str
    rack: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One worker's place in the plan.

    It receives from the first of `predecessors` that lives, else from the store; without any it pulls from the
    store. Links are ordered so that a worker comes after those from whom it receives.
    """

    node: str
    position: int
    predecessors: tuple[str, ...]


def in_rack_order(places: Iterable[Place]) -> list[str]:
    """Neighbours first: by block, then rack, then node."""
    return [place.node for place in sorted(places, key=lambda p: (p.block, p.rack, p.node))]


def crossings(links: Iterable[Link], places: Iterable[Place]) -> int:
    """How many copies go from one rack to another."""
    rack = {place.node: (place.block, place.rack) for place in places}
    return sum(bool(link.predecessors) and rack[link.node] != rack[link.predecessors[0]] for link in links)
