"""What each node can give to a waiting job, and at whose cost.

A round may look for the cheapest nodes hundreds of times. Between two looks a node hardly ever becomes cheaper, unless
a job on it was stopped: so nodes stay sorted by what they cost when last looked at, and only the first are counted
again. One that has become cheaper otherwise (it fits more tightly, or another job on it is moved) is seen late.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from platform_core.cluster.snapshot import RunningJob
from platform_core.scheduling.ordering.keys import OrderKey
from platform_core.scheduling.placement.node_index import SlotCounts, positions


class Held(NamedTuple):
    """A running job and what stopping it would mean."""

    job: RunningJob
    key: OrderKey
    seats: tuple[tuple[int, int], ...]  # (position of the node, slots there)
    slots: int
    lost_gpu_ms: int
    deserving: bool

    def on(self, position: int) -> int:
        return next(slots for where, slots in self.seats if where == position)


Cost = tuple[int, int, int]  # GPU time lost, slots that stay free, position
MayStop = Callable[[Held], bool]
AskedBy = tuple[int | str, ...]
FEW_NODES = 8


class Offer(NamedTuple):
    cost: Cost
    stopped: tuple[Held, ...]

    @property
    def position(self) -> int:
        return self.cost[2]


class Offers:
    """`counts` and `freed` stay the board's own. What stopped jobs free is offered again, without another stop."""

    def __init__(self, counts: SlotCounts, freed: Counter[int], held: Iterable[Held]) -> None:
        """`held`: those to be stopped first come first."""
        self._counts, self._freed = counts, freed
        self._on: dict[int, list[Held]] = {}
        for each in held:
            for position, _ in each.seats:
                self._on.setdefault(position, []).append(each)
        self._sorted: dict[tuple[int, int, AskedBy], list[Cost]] = {}  # heaps, by nodes and slots wanted

    def cheapest(
        self,
        nodes: int,
        wanted: int,
        count: int,
        may_stop: MayStop,
        asked_by: AskedBy = (),
        *,
        in_exchange: bool = False,
    ) -> list[Offer]:
        """[] where too few nodes can give so much; `in_exchange`: of what is stopped alone.

        For callers that may stop fewer jobs from one call to the next with the same `asked_by`.
        """
        among = self._among(nodes, wanted, asked_by)
        heap = self._sorted[among, wanted, asked_by]
        chosen: dict[int, Offer] = {}
        elsewhere: list[Cost] = []
        while heap and len(chosen) < count:
            cost = heapq.heappop(heap)
            position = cost[2]
            if among != nodes and not nodes >> position & 1:
                elsewhere.append(cost)
                continue
            new = position not in chosen
            offer = self._offer(position, wanted, may_stop, in_exchange=in_exchange) if new else None
            if offer is not None and offer.cost > cost:
                heapq.heappush(heap, offer.cost)
            elif offer is not None:
                chosen[position] = offer
        for cost in (*elsewhere, *(offer.cost for offer in chosen.values())):
            heapq.heappush(heap, cost)
        return list(chosen.values()) if len(chosen) == count else []

    def _among(self, nodes: int, wanted: int, asked_by: AskedBy) -> int:
        """These nodes, or a few more that are sorted already: many jobs exclude a node or two."""
        if (nodes, wanted, asked_by) in self._sorted:
            return nodes
        for sorted_nodes, slots, other in self._sorted:
            same = (slots, other) == (wanted, asked_by) and not nodes & ~sorted_nodes
            if same and (sorted_nodes & ~nodes).bit_count() <= FEW_NODES:
                return sorted_nodes
        self._sorted[nodes, wanted, asked_by] = [(0, 0, position) for position in positions(nodes)]
        return nodes

    def take(self, offers: Iterable[Offer], each: int) -> list[tuple[int, int]]:
        """Stop whom the offers name and use so many slots of each; (position, slots) to take of what is free now."""
        offers = list(offers)
        for held in {held.job.id: held for offer in offers for held in offer.stopped}.values():
            for position, slots in held.seats:
                self._freed[position] += slots
                self._on[position] = [each for each in self._on[position] if each is not held]
                for (nodes, _, _), heap in self._sorted.items():
                    if nodes >> position & 1:
                        heapq.heappush(heap, (0, 0, position))  # cheaper than it was: count again
        free_now: list[tuple[int, int]] = []
        for offer in offers:
            freed = min(each, self._freed[offer.position])
            self._freed[offer.position] -= freed
            free_now.append((offer.position, each - freed))
        return free_now

    def forget(self, job_ids: set[str]) -> None:
        for position, held in self._on.items():
            self._on[position] = [each for each in held if each.job.id not in job_ids]

    def _offer(self, position: int, wanted: int, may_stop: MayStop, *, in_exchange: bool) -> Offer | None:
        free = 0 if in_exchange else self._counts.at(position) + self._freed.get(position, 0)
        lost = 0
        chosen: list[Held] = []
        for held in self._on.get(position, ()):
            if free >= wanted:
                break
            if may_stop(held):
                chosen.append(held)
                lost += held.lost_gpu_ms
                free += held.on(position)
        return Offer((lost, free, position), tuple(chosen)) if free >= wanted else None
