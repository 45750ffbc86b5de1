"""The forest: one spanning tree for each lane of pieces, and the plan of a single node in it.

Piece p travels in lane p mod L. Every node receives each lane from one parent and has L slots for children over all
lanes, so that at full rate each slot carries 1/L of a link and no port is overloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

STORE = "store"  # as a source, beside the ids of nodes
MOST_SOURCES = 6
USUAL = 100  # percent: the pace of a node that takes and sends as much as its link can


@dataclass(frozen=True, slots=True)
class Seat:
    """One node's position. `pace`: what it receives, in percent of the usual rate; its children are as slow or slower.
    `sends`: what it sends, in percent; with half of the usual it feeds half as many children.
    """

    node: str
    rack: tuple[str, str]  # block and rack
    parents: tuple[str, ...]  # by lane; STORE: pulls that lane from the store
    pace: int = USUAL
    sends: int = USUAL


@dataclass(frozen=True, slots=True)
class Forest:
    lanes: int
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The plan of one node: for each lane its sources, in order of preference. It names no pieces.

    `slower`: the lanes in which the node cannot keep up with its parent.
    """

    node: str
    lanes: tuple[tuple[str, ...], ...]
    slower: frozenset[int] = frozenset()


def lane_length(pieces: int, lane: int, lanes: int) -> int:
    """The number of pieces in the lane."""
    return max(0, (pieces - lane + lanes - 1) // lanes)


class Tree:
    """The forest by name: parents, children in order, depths."""

    def __init__(self, forest: Forest) -> None:
        self.lanes = forest.lanes
        self.seats = {seat.node: seat for seat in forest.seats}
        self.children: dict[str, list[tuple[str, int]]] = {node: [] for node in self.seats}
        self._heirs: dict[str, dict[tuple[str, int], str]] = {}
        for seat in forest.seats:
            for lane, parent in enumerate(seat.parents):
                if parent in self.children:
                    self.children[parent].append((seat.node, lane))

    def above(self, node: str, lane: int) -> list[str]:
        """The ancestors in the lane, from the parent to the root."""
        ancestors: list[str] = []
        while (node := self.seats[node].parents[lane]) in self.seats and len(ancestors) <= len(self.seats):
            ancestors.append(node)
        return ancestors

    def plan_for(self, node: str) -> NodePlan:
        seat = self.seats[node]
        slower = frozenset(
            lane
            for lane, parent in enumerate(seat.parents)
            if parent != STORE
            and (self.seats[parent].pace > seat.pace or len(self.children[parent]) >= 2 * self.lanes)
        )
        return NodePlan(node, tuple(self._sources(node, lane) for lane in range(self.lanes)), slower)

    def _sources(self, node: str, lane: int) -> tuple[str, ...]:
        """The parent, then nodes with a spare slot if the parent is gone, then the ancestors, and last the store."""
        above = self.above(node, lane)
        if not above:
            return (STORE,)
        if above[0] not in self._heirs:
            self._heirs[above[0]] = self._share_out(above[0])
        alike = [each for each in above if self.seats[each].pace <= self.seats[above[0]].pace]
        found = [above[0], self._heirs[above[0]][node, lane], *alike[1:3], alike[-1]]
        kept = dict.fromkeys(each for each in found if each not in (STORE, node))
        return (*list(kept)[: MOST_SOURCES - 1], STORE)

    def _share_out(self, gone: str) -> dict[tuple[str, int], str]:
        """To whom each follower of a node turns when the node is gone.

        The node frees one slot at each of its parents and has at most as many followers. Each follower takes a slot
        that is neither below itself in the lane nor below another follower without one, so nobody serves more than
        before. Of a root's followers one takes the slot of the store, so that only one copy is pulled. Followers
        without a slot turn to the first of their lane that has one.
        """
        followers, slots = self.children[gone], self.seats[gone].parents
        needs = [[self._needs(gone, each, slot) for slot in enumerate(slots)] for each in followers]
        taken = _most(needs, ())
        found = {followers[follower]: slots[slot] for follower, slot in taken}
        for node, lane in followers:
            first = next((other for other, of in found if of == lane), slots[lane])
            found.setdefault((node, lane), first)
        return found

    def _needs(self, gone: str, follower: tuple[str, int], slot: tuple[int, str]) -> int | None:
        """Which follower of the lane needs a slot before this one can take the slot; -1 none, None impossible."""
        (node, lane), (of, source) = follower, slot
        if source == STORE:
            return -1 if of == lane else None
        line = [source, *self.above(source, lane)]
        if gone not in line:
            return -1
        through = line[line.index(gone) - 1]
        return None if through == node else self.children[gone].index((through, lane))


Taken: TypeAlias = tuple[tuple[int, int], ...]  # follower and slot, in the order in which they can be taken


def _most(needs: Sequence[Sequence[int | None]], taken: Taken) -> Taken:
    """A maximum matching of followers to slots. Both are few, and in a planned forest all followers find one."""
    has, used = {follower for follower, _ in taken}, {slot for _, slot in taken}
    best = taken
    for follower, row in enumerate(needs):
        for slot, need in enumerate(row):
            if follower in has or slot in used or need is None or (need >= 0 and need not in has):
                continue
            best = max(best, _most(needs, (*taken, (follower, slot))), key=len)
            if len(best) == len(needs):
                return best
    return best


def node_plans(forest: Forest) -> tuple[NodePlan, ...]:
    tree = Tree(forest)
    return tuple(tree.plan_for(seat.node) for seat in forest.seats)


def depths(forest: Forest) -> list[int]:
    """For each lane, the hops from the store to the furthest node."""
    tree = Tree(forest)
    deepest = []
    for lane in range(forest.lanes):
        hops: dict[str, int] = {STORE: 0}
        for seat in forest.seats:
            path = [seat.node]
            while path[-1] not in hops:
                path.append(tree.seats[path[-1]].parents[lane])
            for node in reversed(path[:-1]):
                hops[node] = hops[tree.seats[node].parents[lane]] + 1
        deepest.append(max(hops.values()))
    return deepest


def crossings(forest: Forest) -> float:
    """How many whole copies cross between racks; each lane carries its part of a copy."""
    racks = {seat.node: seat.rack for seat in forest.seats}
    edges = sum(
        parent != STORE and racks[parent] != seat.rack for seat in forest.seats for parent in seat.parents
    )
    return edges / forest.lanes


def most_children(seats: Iterable[Seat]) -> int:
    """The largest number of slots that any node gives."""
    counts: dict[str, int] = {}
    for seat in seats:
        for parent in seat.parents:
            if parent != STORE:
                counts[parent] = counts.get(parent, 0) + 1
    return max(counts.values(), default=0)
