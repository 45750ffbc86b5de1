"""Over how many racks and blocks nodes are spread, and which slots of a node are linked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

Islands = tuple[tuple[int, ...], ...]  # slot indices, each in one of them, ascending


@dataclass(frozen=True, slots=True)
class Location:
    """A rack is named by its block and rack: many clusters number racks anew in each block."""

    node: str
    rack: str
    block: str


@dataclass(frozen=True, slots=True)
class Spread:
    nodes: int
    racks: int
    blocks: int

    @property
    def sentence(self) -> str:
        if self.nodes == 1:
            return "1 node"
        racks = "1 rack" if self.racks == 1 else f"{self.racks} racks"
        blocks = "" if self.blocks == 1 else f" of {self.blocks} blocks"
        return f"{self.nodes} nodes in {racks}{blocks}"


def spread(places: Iterable[Location]) -> Spread:
    known = set(places)
    racks = {(place.block, place.rack) for place in known}
    return Spread(len({place.node for place in known}), len(racks), len({block for block, _ in racks}))


def islands(numbered: Iterable[tuple[int, int]]) -> Islands:
    """Slots by the number of their island; 0 is a slot that is linked with no other.

    () where there is nothing to choose: all are linked with each other, or none is.
    """
    of_slot = sorted(numbered)
    if not any(number for _, number in of_slot):
        return ()
    members: dict[tuple[int, int], list[int]] = {}
    for index, number in of_slot:
        members.setdefault((number, 0 if number else index), []).append(index)
    alike = len(members) <= 1 or all(len(indices) == 1 for indices in members.values())
    return () if alike else tuple(sorted(tuple(indices) for indices in members.values()))


def numbered(count: int, links: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Of each of so many slots the number of its island, given which two are linked; 0 where it has no link."""
    island = list(range(count))
    for one, other in links:
        low, high = sorted((island[one], island[other]))
        island = [low if number == high else number for number in island]
    sizes = Counter(island)
    numbers = {
        number: place for place, number in enumerate(sorted(n for n in sizes if sizes[n] > 1), start=1)
    }
    return tuple(numbers.get(number, 0) for number in island)
