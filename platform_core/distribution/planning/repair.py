"""Repair by the coordinator: the same forest with as few changed positions as possible.

Neighbours have helped themselves before this runs, so some node may serve one follower too many. Here each orphan gets
a slot that is free, and only nodes whose parents changed are informed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice

from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, USUAL, Forest, Seat
from platform_core.distribution.planning.routes import Place

_UNPLACED = "?"
_NEAREST = 64  # so many free slots are looked at before the best of them is taken


def mend(
    forest: Forest,
    gone: Collection[str] = (),
    joined: Collection[Place] = (),
    pace: Mapping[str, int] | None = None,
    sends: Mapping[str, int] | None = None,
) -> Forest:
    """The forest without the nodes that are gone, with new nodes as leaves, and with nodes of a new pace among their
    like. A node that sends less than assumed joins anew with fewer followers.

    Slower nodes form trees of their own below the others, so that nobody waits for them. If most nodes are new, all
    positions are planned anew: newcomers below each other would become a chain.
    """
    staying = {seat.node: seat for seat in forest.seats if seat.node not in gone}
    pace = {seat.node: seat.pace for seat in staying.values()} | dict(pace or {})
    sends = {seat.node: seat.sends for seat in staying.values()} | dict(sends or {})
    weaker = {node for node, seat in staying.items() if sends[node] < seat.sends}
    arriving = {place.node: place for place in joined if place.node not in staying}
    if forest.lanes > 1 and len(arriving) > len(staying):
        places = [*map(_place, staying.values()), *arriving.values()]
        return mend(mesh.plan(places, forest.lanes), pace=pace, sends=sends)
    arriving |= {node: _place(staying.pop(node)) for node in sorted(weaker)}
    changed = [seat for seat in staying.values() if pace[seat.node] != seat.pace]
    work = _Work(forest.lanes, [seat for seat in staying.values() if pace[seat.node] == seat.pace])
    for percent in sorted({pace[seat.node] for seat in changed}, reverse=True):
        places = [_place(seat) for seat in changed if pace[seat.node] == percent]
        for seat in mesh.plan(places, forest.lanes).seats:
            parents = tuple(_UNPLACED if parent == STORE else parent for parent in seat.parents)
            work.add(replace(seat, parents=parents, pace=percent, sends=sends[seat.node]))
    unplaced = (_UNPLACED,) * forest.lanes
    for node, place in sorted(arriving.items()):
        rack = (place.block, place.rack)
        work.add(Seat(node, rack, unplaced, pace.get(node, USUAL), sends.get(node, USUAL)))
    work.place_all(arriving)
    return Forest(forest.lanes, tuple(work.seats[node] for node in sorted(work.seats)))


def _place(seat: Seat) -> Place:
    return Place(seat.node, seat.rack[1], seat.rack[0])


def changed_nodes(before: Forest, after: Forest) -> tuple[str, ...]:
    """The nodes to inform: new ones, and those with other parents."""
    parents = {seat.node: seat.parents for seat in before.seats}
    return tuple(seat.node for seat in after.seats if parents.get(seat.node) != seat.parents)


def _lanes_without(seat: Seat) -> list[int]:
    return [lane for lane, parent in enumerate(seat.parents) if parent == _UNPLACED]


class _Work:
    def __init__(self, lanes: int, seats: Iterable[Seat]) -> None:
        self.lanes = lanes
        self.seats: dict[str, Seat] = {seat.node: seat for seat in seats}
        self.used = dict.fromkeys(self.seats, 0)
        self.feeding: dict[tuple[str, int], int] = {}  # children by node and lane
        self.rooted = [False] * lanes
        for seat in list(self.seats.values()):
            kept = tuple(p if p == STORE or p in self.seats else _UNPLACED for p in seat.parents)
            self.seats[seat.node] = replace(seat, parents=kept)
            self._count(seat.node, kept)
        self.free: dict[tuple[str, str], list[str]] = {}

    def _slots(self, node: str) -> int:
        return self.lanes * self.seats[node].sends // USUAL

    def add(self, seat: Seat) -> None:
        self.seats[seat.node] = seat
        self.used.setdefault(seat.node, 0)
        self._count(seat.node, seat.parents)

    def _count(self, node: str, parents: tuple[str, ...]) -> None:
        for lane, parent in enumerate(parents):
            self.rooted[lane] |= parent == STORE
            if parent not in (STORE, _UNPLACED):
                self.used[parent] = self.used.get(parent, 0) + 1
                self.feeding[parent, lane] = self.feeding.get((parent, lane), 0) + 1

    def place_all(self, newcomers: Collection[str]) -> None:
        """Nodes that feed others are placed first: the nodes below them can then take in the rest.

        Newcomers do not take free slots, which would soon all be below the last of them; they take the positions of
        leaves in different parts of the forest. A displaced leaf may follow its newcomer if no other slot is free.
        """
        orphans = deque(
            sorted(
                ((node, lane) for node, seat in self.seats.items() for lane in _lanes_without(seat)),
                key=lambda each: (-self.seats[each[0]].pace, -self.feeding.get(each, 0), each),
            )
        )
        for node in sorted(self.seats):
            if self.used[node] < self._slots(node):
                self.free.setdefault(self.seats[node].rack, []).append(node)
        moved: set[tuple[str, int]] = set()
        while orphans:
            node, lane = orphans.popleft()
            settled = (node, lane) in moved
            if not self.rooted[lane]:
                self._set_parent(node, lane, STORE)
            elif (settled or node not in newcomers) and self._take_free_slot(node, lane, newcomers):
                continue
            elif other := None if settled else self._take_place(node, lane):
                orphans.append((other, lane))
                moved |= {(node, lane), (other, lane)}
            elif not self._take_free_slot(node, lane):  # then somebody gets one follower too many
                self._set_parent(node, lane, self._least_harm(node, lane))
        while self._relieve():
            pass

    def _set_parent(self, node: str, lane: int, parent: str) -> None:
        seat = self.seats[node]
        self.seats[node] = replace(seat, parents=(*seat.parents[:lane], parent, *seat.parents[lane + 1 :]))
        self._count(node, tuple(parent if each == lane else _UNPLACED for each in range(self.lanes)))
        if parent not in (STORE, _UNPLACED) and self.used[parent] >= self._slots(parent):
            here = self.free.get(self.seats[parent].rack, [])
            if parent in here:
                here.remove(parent)

    def _take_free_slot(self, node: str, lane: int, but_of: Collection[str] = ()) -> bool:
        """A near slot: equal pace first, then the same rack, then few hops from the store."""
        rack = self.seats[node].rack
        best = self._fit(node, lane, (each for each in self.free.get(rack, ()) if each not in but_of))
        if not best or best[0] or best[1]:
            every = (each for here in self.free.values() for each in here if each not in but_of)
            far = self._fit(node, lane, every)
            best = min((each for each in (best, far) if each), default=None)
        if best:
            self._set_parent(node, lane, best[-1])
        return best is not None

    def _take_place(self, node: str, lane: int) -> str | None:
        """Take the position of a leaf, or of a slower node, when all free slots are below the node itself, below
        another orphan or of slower nodes. Returns the displaced node.
        """
        seat = self.seats[node]
        leaves = (
            (other.rack != seat.rack, self._hops(other.node, lane) or 0, other.node)
            for other in self._leaves(seat, lane)
        )
        best = min(islice(leaves, _NEAREST), default=None)
        taken = best[-1] if best else self._slower(seat, lane)
        if taken:
            parent = self.seats[taken].parents[lane]
            if parent != STORE:
                self.used[parent] -= 1
                self.feeding[parent, lane] -= 1
            self._set_parent(taken, lane, _UNPLACED)
            self._set_parent(node, lane, parent)
        return taken

    def _slower(self, seat: Seat, lane: int) -> str | None:
        """The first slower node on the way down, perhaps the root; the seat's rack first."""
        for other in sorted(self.seats.values(), key=lambda other: (other.rack != seat.rack, other.node)):
            parent = other.parents[lane]
            above = USUAL if parent == STORE else self.seats[parent].pace if parent != _UNPLACED else 0
            if other.pace < seat.pace <= above and self._hops(other.node, lane) is not None:
                return other.node
        return None

    def _leaves(self, seat: Seat, lane: int) -> Iterable[Seat]:
        """Connected nodes of the same pace without followers in the lane; the seat's rack first."""
        near = sorted(self.seats.values(), key=lambda other: (other.rack != seat.rack, other.node))
        for other in near:
            if other.node == seat.node or other.pace != seat.pace or self.feeding.get((other.node, lane)):
                continue
            parent = other.parents[lane]
            if parent in (STORE, _UNPLACED) or self.seats[parent].pace != seat.pace:
                continue
            if self._hops(other.node, lane) is not None:
                yield other

    def _fit(
        self, node: str, lane: int, candidates: Iterable[str]
    ) -> tuple[int, bool, bool, int, str] | None:
        seat, best, looked = self.seats[node], None, 0
        for candidate in candidates:
            other = self.seats[candidate]
            hops = self._hops(candidate, lane) if other.pace >= seat.pace else None
            if hops is None:
                continue
            # All lanes from one node: nobody could tell which of the two is slow.
            all_from_it = seat.parents.count(candidate) + 1 == self.lanes > 1
            rank = (other.pace - seat.pace, all_from_it, other.rack != seat.rack, hops, candidate)
            best = min(best, rank) if best else rank
            looked += 1
            if looked >= _NEAREST:
                break
        return best

    def _least_harm(self, node: str, lane: int) -> str:
        """The position whose loss slows the fewest followers, with everything below them."""
        pace, below = self.seats[node].pace, self._below()
        fit = (
            (self._slots(each) == 0, (self.used[each] + 1) / max(1, self._slots(each)), below[each], each)
            for each, other in self.seats.items()
            if other.pace >= pace and self._hops(each, lane) is not None
        )
        return min(fit, default=(False, 0.0, 0, STORE))[-1]

    def _below(self) -> Counter[str]:
        """How many lanes of how many nodes pass through a node."""
        below = Counter[str]()
        for seat in self.seats.values():
            for lane, parent in enumerate(seat.parents):
                for _ in self.seats:
                    if parent in (STORE, _UNPLACED):
                        break
                    below[parent] += 1
                    parent = self.seats[parent].parents[lane]
        return below

    def _relieve(self) -> bool:
        """Move a follower of an overloaded node, a slow one first, to a slot that became free; True if one moved."""
        crowded = {
            node for node, used in self.used.items() if node in self.seats and used > self._slots(node)
        }
        for seat in sorted(self.seats.values(), key=lambda seat: (seat.pace, seat.node)) if crowded else ():
            for lane, parent in enumerate(seat.parents):
                if parent in crowded:
                    self._set_parent(seat.node, lane, _UNPLACED)
                    best = self._fit(seat.node, lane, (n for here in self.free.values() for n in here))
                    self.feeding[parent, lane] -= 1
                    self.used[parent] -= 1
                    self._set_parent(seat.node, lane, best[-1] if best else parent)
                    if best:
                        return True
        return False

    def _hops(self, node: str, lane: int) -> int | None:
        """The hops from the store; None below an orphan."""
        for hops in range(len(self.seats) + 1):
            if node == STORE:
                return hops
            if node == _UNPLACED:
                return None
            node = self.seats[node].parents[lane]
        return None
