"""What each node can offer to a waiting job, and how much GPU time stopping its jobs would lose.

A round may search for the cheapest nodes hundreds of times. Between two searches a node rarely becomes cheaper unless a
job on it was stopped, so each heap keeps the last known costs as lower bounds and only recomputes the first nodes. A
node that became cheaper otherwise (a tighter fit, another job migrates away) is noticed late.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from platform_core.cluster.snapshot import RunningJob
from platform_core.scheduling.ordering.keys import OrderKey
from platform_core.scheduling.placement.node_index import SlotCounts, positions
from platform_core.scheduling.reservations.nodes import Reservations


class Held(NamedTuple):
    """A running job as a candidate for eviction."""

    job: RunningJob
    key: OrderKey
    seats: tuple[tuple[int, int], ...]  # (position of the node, slots there)
    slots: int
    lost_gpu_ms: int
    entitled: bool

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
    """Offers of all nodes. Slots that evicted jobs release are offered again, without another stop."""

    def __init__(self, counts: SlotCounts, reservations: Reservations, candidates: Iterable[Held]) -> None:
        """`counts` and `reservations` are shared with the round. `candidates`: those to stop first come first."""
        self._counts, self._reservations = counts, reservations
        self._on: dict[int, list[Held]] = {}
        for held in candidates:
            for position, _ in held.seats:
                self._on.setdefault(position, []).append(held)
        self._heaps: dict[tuple[int, int, AskedBy], list[Cost]] = {}  # by nodes, slots wanted, and who asks

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
        """The `count` cheapest nodes with `wanted` slots each, or []. `in_exchange`: free slots do not count.

        Between calls with equal `asked_by` the set of jobs that `may_stop` accepts may only shrink.
        """
        among = self._among(nodes, wanted, asked_by)
        heap = self._heaps[among, wanted, asked_by]
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
        """These nodes, or a superset with few more that has a heap already: many jobs exclude a node or two."""
        if (nodes, wanted, asked_by) in self._heaps:
            return nodes
        for superset, slots, other in self._heaps:
            same = (slots, other) == (wanted, asked_by) and not nodes & ~superset
            if same and (superset & ~nodes).bit_count() <= FEW_NODES:
                return superset
        self._heaps[nodes, wanted, asked_by] = [(0, 0, position) for position in positions(nodes)]
        return nodes

    def take(self, offers: Iterable[Offer], slots_each: int) -> list[tuple[int, int]]:
        """Stop the jobs of these offers and use so many slots of each node; returns (position, slots) free now."""
        offers = list(offers)
        for held in {held.job.id: held for offer in offers for held in offer.stopped}.values():
            for position, slots in held.seats:
                self._reservations.release_evicted(position, slots)
                self._on[position] = [other for other in self._on[position] if other is not held]
                for (nodes, _, _), heap in self._heaps.items():
                    if nodes >> position & 1:
                        heapq.heappush(heap, (0, 0, position))  # cheaper than before: recompute
        return [
            (offer.position, slots_each - self._reservations.claim_evicted(offer.position, slots_each))
            for offer in offers
        ]

    def forget(self, job_ids: set[str]) -> None:
        """These jobs are no candidates any more."""
        for position, candidates in self._on.items():
            self._on[position] = [held for held in candidates if held.job.id not in job_ids]

    def _offer(self, position: int, wanted: int, may_stop: MayStop, *, in_exchange: bool) -> Offer | None:
        free = 0 if in_exchange else self._counts.at(position) + self._reservations.evicted.get(position, 0)
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
