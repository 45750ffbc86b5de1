"""The mesh: several trees at once, each for its share of the pieces, in which every node's upload is used once.

With L lanes every node has L slots for children. Level by level (blocks, racks, nodes) the slots are laid out in a
row and each lane takes its stretch of it: a node is inner in one lane, at most two, and a leaf in the others, so that
all links are full from the first minute to the last. A lane enters each rack once. The last node is
L pieces behind for each hop, about L log_L N in all, which is small beside the number of pieces.

Why trees and not a hypercube or a circulant graph, which meet the bound to the piece (Bar-Noy and Kipnis 1994;
Träff 2024): those win about 20 piece times of 30,000, and pay with half of all copies crossing racks and with a
schedule in step, in which one slow node slows everyone. Two trees are Sanders, Speck and Träff, "Two-tree algorithms
for full bandwidth broadcast, reduction and scan", Parallel Computing 35 (2009); more of them SplitStream (2003).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from platform_core.distribution.planning.forest import STORE, Forest, Seat
from platform_core.distribution.planning.routes import Place

LANES, FEW_LANES = 4, 2
_FEW = 24  # nodes


@dataclass(slots=True)
class _Unit:
    """A node, rack or block once its inside is connected: by lane where it is entered and who serves others."""

    entries: list[str]
    exits: list[list[str]]  # one name for each slot


class _Group:
    """Places below one level, by their sub-groups; a single node has none."""

    __slots__ = ("node", "parts")

    def __init__(self, node: str = "", parts: Sequence[_Group] = ()) -> None:
        self.node, self.parts = node, parts


def lanes_for(workers: int) -> int:
    """A few nodes get two lanes: of two streams each is twice as quick, and all together need less CPU. Many get four:
    who fails, or is slow, holds up a quarter of what those below it get, and there are many below it."""
    return FEW_LANES if workers <= _FEW else LANES


def plan(places: Iterable[Place], lanes: int | None = None) -> Forest:
    """Deterministic; nodes in rack order. About a second for 20,000 nodes. `lanes`: as many as fit their number, if not
    said otherwise."""
    ordered = sorted(places, key=lambda place: (place.block, place.rack, place.node))
    lanes = lanes or lanes_for(len(ordered))
    if not ordered:
        return Forest(lanes, ())
    blocks = []
    for _, in_block in groupby(ordered, key=lambda place: place.block):
        racks = [
            _Group(parts=[_Group(place.node) for place in in_rack])
            for _, in_rack in groupby(in_block, key=lambda place: place.rack)
        ]
        blocks.append(_Group(parts=racks))
    parents = {place.node: [STORE] * lanes for place in ordered}
    _connect(_Group(parts=blocks), [0] * lanes, parents)
    _spread_parents({place.node: (place.block, place.rack) for place in ordered}, parents, lanes)
    return Forest(
        lanes,
        tuple(Seat(place.node, (place.block, place.rack), tuple(parents[place.node])) for place in ordered),
    )


def _connect(group: _Group, outside: list[int], parents: dict[str, list[str]]) -> _Unit:
    """Connects the inside of a group, keeping by lane as many slots free for others as `outside` asks."""
    lanes = len(outside)
    if not group.parts:
        return _Unit([group.node] * lanes, [[group.node] * slots for slots in outside])
    shares = _shares(len(group.parts), outside)
    units = [_connect(part, share, parents) for part, share in zip(group.parts, shares, strict=True)]
    entries, exits = [], []
    for lane, slots in enumerate(outside):
        entry, left = _connect_lane(lane, units, slots, parents)
        entries.append(entry)
        exits.append(left)
    return _Unit(entries, exits)


def _spread_parents(racks: Mapping[str, tuple[str, str]], parents: dict[str, list[str]], lanes: int) -> None:
    """Who gets two lanes from one node changes places in one of them with another leaf of its rack: one that sends
    slowly would be all that it has, and nobody could tell which of the two is slow."""
    feeds = {(parent, lane) for every in parents.values() for lane, parent in enumerate(every)}
    leaves: dict[tuple[tuple[str, str], int], list[str]] = {}
    for node, rack in racks.items():
        for lane in range(lanes):
            if (node, lane) not in feeds:
                leaves.setdefault((rack, lane), []).append(node)
    for node, mine in parents.items():
        for lane, parent in enumerate(mine):
            if parent == STORE or mine.count(parent) < 2 or (node, lane) in feeds:
                continue
            for other in reversed(leaves[racks[node], lane]):
                sources = parents[other]
                if sources[lane] in mine or parent in sources:
                    continue
                mine[lane], sources[lane] = sources[lane], parent
                break


def _shares(units: int, outside: list[int]) -> list[list[int]]:
    """How many slots each unit gives to each lane: stretches of one row of slots, L for each unit."""
    lanes = len(outside)
    shares = [[0] * lanes for _ in range(units)]
    at = 0
    for lane, slots in enumerate(outside):
        end = at + units - 1 + slots
        while at < end:
            taken = min(end, (at // lanes + 1) * lanes) - at
            shares[at // lanes][lane] += taken
            at += taken
    return shares


def _connect_lane(
    lane: int, units: Sequence[_Unit], outside: int, parents: dict[str, list[str]]
) -> tuple[str, list[str]]:
    """A tree breadth first: units that have slots before others, then what goes outside, then the leaves."""
    order = sorted(range(len(units)), key=lambda number: (-len(units[number].exits[lane]), number))
    entry = units[order[0]]
    free = deque(entry.exits[lane])
    left: list[str] = []
    for number in order[1:]:
        unit = units[number]
        if not unit.exits[lane]:
            while len(left) < outside:
                left.append(free.popleft())
        parents[unit.entries[lane]][lane] = free.popleft()
        free.extend(unit.exits[lane])
    while len(left) < outside:
        left.append(free.popleft())
    return entry.entries[lane], left


def estimate_rounds(pieces: int, deepest: int, lanes: int = LANES) -> int:
    """Piece times until the last node has the last piece: a hop costs L, because a slot carries 1/L of a link."""
    return pieces + lanes * max(0, deepest - 1) if pieces and deepest else 0
