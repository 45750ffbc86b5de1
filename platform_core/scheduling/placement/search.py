"""The search for the nodes of one gang: the fewest nodes, under the nearest common switch, with the tightest fit.

A gang is placed whole or not at all. Every node of it gives equally many slots, because torchrun starts the same
number of ranks on each: a gang of 6 takes 6, 3+3, 2+2+2 or 1x6, and waits rather than run as 4+2. Among the splits over
the fewest nodes the search prefers one rack, then one block with the fewest racks, then the fewest blocks, and last the
tightest fit, which leaves whole nodes and racks for the gangs that need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from platform_core.cluster.topology import Islands
from platform_core.scheduling.placement.node_index import NodeIndex, SlotCounts, positions


@dataclass(frozen=True, slots=True)
class Place:
    """Positions of the nodes in the index, in order of rank, each giving `slots_each`."""

    nodes: tuple[int, ...]
    slots_each: int


def find_place(
    index: NodeIndex,
    counts: SlotCounts,
    allowed: int,
    splits: Sequence[int],
    gpus: int,
    max_racks: int = 0,
    islands: IslandCounts | None = None,
    holders: int = 0,
) -> Place | None:
    """The best place for the gang among the allowed nodes, or None when it does not fit whole.

    `splits`: the numbers of nodes it may take, the preferred first; `max_racks`: 0 is no limit. Among equally tight
    nodes those with enough free slots within one island come first, and then those that hold its data.
    """
    for node_count in splits:
        slots_each = gpus // node_count
        candidates = counts.at_least(slots_each) & allowed
        whole = islands.at_least(slots_each) if islands is not None else 0
        preferred = (whole & holders, whole, holders)
        if candidates.bit_count() < node_count:
            continue
        if node_count == 1:
            return Place((_tightest(counts, candidates, slots_each, preferred),), slots_each)
        parts = _nearest(index, candidates, node_count)
        if 0 < max_racks < len(parts):
            parts = _fewest([nodes for rack in index.racks if (nodes := rack & candidates)], node_count)
            if max_racks < len(parts):
                continue
        chosen: list[int] = []
        for nodes, wanted in parts:
            chosen.extend(_tightest_of_rack(counts, nodes, slots_each, wanted, preferred))
        return Place(tuple(sorted(chosen)), slots_each)
    return None


@cache
def equal_splits(gpus: int, most_slots: int) -> tuple[int, ...]:
    """Over how many nodes a gang can be split into equal parts, fewest first."""
    return tuple(count for count in range(1, gpus + 1) if gpus % count == 0 and gpus // count <= most_slots)


def whole_groups(
    splits: Sequence[int], gpus: int, tensor: int, group: int, node_slots: int
) -> tuple[int, ...]:
    """Those that cut no group: ranks are numbered node by node, and those of one group follow each other.

    A group is the tensor and context ranks of one stage, or the tensor ranks alone where no node has slots for both.
    """
    together = group if group <= node_slots else tensor
    return tuple(count for count in splits if gpus // count % together == 0)


class IslandCounts:
    """`at_least(n)` is the set of nodes that have n free slots within one island, among those that have islands."""

    def __init__(self, index: NodeIndex) -> None:
        self._levels = [0] * (index.most_slots + 1)
        for position in positions(index.with_islands):
            self.update(position, index.nodes[position].free_slots, index.nodes[position].islands)

    def at_least(self, count: int) -> int:
        return self._levels[count] if count < len(self._levels) else 0

    def update(self, position: int, free: Sequence[int], islands: Islands) -> None:
        """Record which slots of the node are free."""
        bit, most = 1 << position, max(len(group) for group in _free_by_island(free, islands) or [()])
        for count, nodes in enumerate(self._levels):
            self._levels[count] = nodes | bit if count <= most else nodes & ~bit


def take_slots(
    free: tuple[int, ...], islands: Islands, count: int, tensor: int = 1
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns `count` of a node's free slots, and the slots that stay free.

    They come from the smallest island that has enough, so that larger islands stay whole; else from as few islands as
    possible, and of each as many as whole tensor groups take, where the node has enough of those.
    """
    if not islands:
        return free[:count], free[count:]
    groups = _free_by_island(free, islands)
    whole = [group[: len(group) // tensor * tensor] for group in groups if len(group) >= tensor]
    if count > max(map(len, groups), default=0) and sum(map(len, whole)) >= count:
        groups = whole
    taken: list[int] = []
    while len(taken) < count:
        missing = count - len(taken)
        suffice = [group for group in groups if len(group) >= missing]
        tightest = min(suffice, key=lambda group: (len(group), group in islands, group), default=None)
        group = tightest or min(groups, key=lambda group: (-len(group), group))
        taken.extend(group[:missing])
        groups.remove(group)
    return tuple(sorted(taken)), tuple(slot for slot in free if slot not in taken)


def _free_by_island(free: Sequence[int], islands: Islands) -> list[tuple[int, ...]]:
    left = set(free)
    return [group for island in islands if (group := tuple(slot for slot in island if slot in left))]


def _tightest(counts: SlotCounts, candidates: int, slots: int, preferred: Sequence[int]) -> int:
    """The first node with the fewest free slots that suffice."""
    while not (fitting := counts.exactly(slots) & candidates):
        slots += 1
    return next(_in_order(fitting, preferred))


def _tightest_of_rack(
    counts: SlotCounts, nodes: int, slots: int, wanted: int, preferred: Sequence[int]
) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < wanted:
        fitting = counts.exactly(slots) & nodes
        chosen.extend(islice(_in_order(fitting, preferred), wanted - len(chosen)))
        slots += 1
    return chosen


def _in_order(fitting: int, preferred: Sequence[int]) -> Iterator[int]:
    """Their positions: those of the first preferred set, then of the second, and so on; then the others."""
    for nodes in preferred:
        yield from positions(fitting & nodes)
        fitting &= ~nodes
    yield from positions(fitting)


def _nearest(index: NodeIndex, candidates: int, wanted: int) -> list[tuple[int, int]]:
    """Which candidates to take, as (nodes of a rack, how many of them)."""
    racks_of_block: dict[int, list[int]] = {}
    for racks in index.racks_by_block:
        with_candidates = [nodes for rack in racks if (nodes := rack & candidates)]
        racks_of_block[sum(with_candidates)] = with_candidates
    one_rack = _smallest_that_suffices([rack for racks in racks_of_block.values() for rack in racks], wanted)
    if one_rack is not None:
        return [(one_rack, wanted)]
    within_a_block = [
        _fewest(racks, wanted) for block, racks in racks_of_block.items() if block.bit_count() >= wanted
    ]
    if within_a_block:
        return min(within_a_block, key=len)
    chosen: list[tuple[int, int]] = []
    for block, from_block in _fewest(list(racks_of_block), wanted):
        chosen.extend(_fewest(racks_of_block[block], from_block))
    return chosen


def _fewest(groups: list[int], wanted: int) -> list[tuple[int, int]]:
    """The fewest groups that hold `wanted` nodes together: the largest first, and last the tightest."""
    left = sorted(groups, key=lambda nodes: (-nodes.bit_count(), nodes & -nodes))
    chosen: list[tuple[int, int]] = []
    while wanted:
        last = _smallest_that_suffices(left, wanted)
        group = left[0] if last is None else last
        taken = min(wanted, group.bit_count())
        chosen.append((group, taken))
        left.remove(group)
        wanted -= taken
    return chosen


def _smallest_that_suffices(groups: list[int], wanted: int) -> int | None:
    fitting = [nodes for nodes in groups if nodes.bit_count() >= wanted]
    return min(fitting, key=lambda nodes: (nodes.bit_count(), nodes & -nodes)) if fitting else None
