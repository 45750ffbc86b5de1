"""The nodes of the simulated fabric: each asks `swarm.next_actions` what to do, and does nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from platform_core.distribution.planning.estimate import Conditions
from platform_core.distribution.planning.forest import STORE, NodePlan, lane_length
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.slow_nodes.windows import Seen
from platform_core.distribution.swarm.endgame import Ending, look
from platform_core.distribution.swarm.requests import PATIENCE_LEAPS, Follow, View, next_actions
from platform_core.distribution.swarm.runs import Runs, frontier, joined, missing, run_at
from platform_core.simulation.fabric.flows import Flows, Wiring

_WHOLE = 1e-6


class Nodes:
    def __init__(
        self,
        places: Sequence[Place],
        conditions: Conditions,
        slow: Mapping[str, int],
        weak: Mapping[str, int],
        plans: Iterable[NodePlan],
        leap_ticks: int,
    ) -> None:
        self.plans = {plan.node: plan for plan in plans}
        self.lanes = len(next(iter(self.plans.values())).lanes)
        self.pieces = -(-conditions.total_bytes // conditions.piece_size)
        self.lengths = [lane_length(self.pieces, lane, self.lanes) for lane in range(self.lanes)]
        self.names = [place.node for place in places]
        self.number = {name: number for number, name in enumerate(self.names)}
        self.flows = Flows(_wiring(places, conditions, slow, weak, self.lengths))
        self.leap = max(8, leap_ticks // self.lanes)
        self.finished: dict[str, int] = {}
        self.decisions = 0
        count = len(self.names) * self.lanes
        self._older: dict[int, Runs] = {}  # what lies below the newest run; few nodes have any
        self._start = [0] * count  # of the newest run
        self._gap = [0] * count  # where the gap that is being filled began
        self._following: list[Follow | None] = [None] * count
        self._most_open = sum(length > 0 for length in self.lengths)
        self._open = [self._most_open] * len(self.names)
        self._gone: set[str] = set()
        self._astray: set[int] = set()  # flows that do not come from where the plan would have them
        self._watched = self.flows.place.copy()
        self._endings: dict[int, Ending] = {}
        self._slow: dict[int, frozenset[str]] = {}

    def open_count(self, given_up: Collection[str]) -> int:
        """How many are still to finish."""
        return len(self.names) - len(self.finished) - sum(node not in self.finished for node in given_up)

    def unfinished(self) -> list[str]:
        return [name for name in self.names if name not in self.finished]

    def move(self, ticks: int, now: int) -> bool:
        """Whether anything moved."""
        before = self.flows.moved
        for flow in self.flows.step(ticks).tolist():
            self._ended(flow, now)
        return self.flows.moved > before

    def seen(self, now: int) -> dict[str, Seen]:
        """What those that are not done would tell."""
        flows = self.flows
        held = flows.got.reshape(-1, self.lanes).tolist()
        return {
            name: Seen(now, tuple(held[number]))
            for number, name in enumerate(self.names)
            if name not in self.finished and flows.alive[number]
        }

    # what happens to a node

    def fail(self, node: str) -> None:
        """It keeps whole pieces, and no more of those under way."""
        number = self.number[node]
        for flow in range(number * self.lanes, (number + 1) * self.lanes):
            self._settle(flow)
            self._astray.discard(flow)
            self._following[flow] = None
            self.flows.source[flow] = -1
        self.flows.alive[number] = False
        self.flows.refresh()

    def miss(self, node: str) -> None:
        """Its neighbours notice that it is gone."""
        self._gone.add(node)
        self.decide(self._followers(node))

    def come_back(self, node: str, knows_its_place: bool) -> None:
        """Those who have it in their plan see it at once; it goes on itself when it has a place."""
        self._gone.discard(node)
        self.flows.alive[self.number[node]] = True
        self.flows.refresh()
        if knows_its_place:
            self.decide([node, *(n for n in self.names if any(node in lane for lane in self.plans[n].lanes))])

    def told(self, plans: Sequence[NodePlan]) -> None:
        for plan in plans:
            self.plans[plan.node] = plan
        self.decide([plan.node for plan in plans])

    def _note_astray(self, node: str) -> None:
        first = self.number[node] * self.lanes
        for flow, sources in enumerate(self.plans[node].lanes, first):
            follow = self._following[flow]
            if follow and follow.source != sources[0]:
                self._astray.add(flow)
            else:
                self._astray.discard(flow)

    def watch(self, now_ms: int) -> None:
        """Every node looks now and then. Asked are those whose answer can differ: a lane stands still, is far behind
        its source, or does not come from where the plan would have it. One in which nobody is asked stands still too.
        """
        flows = self.flows
        lacks = flows.in_gap | (flows.place < flows.length[: len(flows.place)])
        still = lacks & (flows.place == self._watched) & flows.alive[flows.target]
        far = flows.behind() > self.leap
        self._watched = flows.place.copy()
        stalled: dict[int, set[int]] = {}
        for flow in np.flatnonzero(still).tolist():
            stalled.setdefault(flow // self.lanes, set()).add(flow % self.lanes)
        others = {*self._astray, *np.flatnonzero(far).tolist()}
        numbers = {*stalled, *(flow // self.lanes for flow in others), *self._avoiding(now_ms)}
        self.decide([self.names[number] for number in sorted(numbers)], stalled)

    def _avoiding(self, now_ms: int) -> list[int]:
        """Those that leave somebody who hardly sends."""
        left = []
        for number, still in enumerate(self._open):
            if not 0 < still < self._most_open or not self.flows.alive[number]:
                continue
            before = self._endings.get(number, Ending(0))
            after = look(before, self._view(self.names[number], ()), now_ms)
            self._endings[number], self._slow[number] = after, after.slow(now_ms)
            if after.slow(now_ms) - before.slow(now_ms):
                left.append(number)
        return left

    # deciding

    def decide(self, nodes: Iterable[str], stalled: Mapping[int, Collection[int]] | None = None) -> None:
        todo = list(dict.fromkeys(nodes))
        for node in todo:  # grows: whoever follows one that leapt ahead must look again
            number = self.number[node]
            if not self.flows.alive[number] or node in self.finished:
                continue
            self.decisions += 1
            for follow in next_actions(self.plans[node], self._view(node, (stalled or {}).get(number, ()))):
                todo.extend(self._follow(number, follow))
            self._connect(number)
            self._note_astray(node)
        self.flows.refresh()

    def _view(self, node: str, stalled: Collection[int]) -> View:
        near = {
            name
            for lane in self.plans[node].lanes
            for name in lane
            if name != STORE and name not in self._gone
        }
        first = self.number[node] * self.lanes
        return View(
            self.pieces,
            self._holds(node),
            {name: self._holds(name) for name in sorted(near)},
            tuple(self._following[first : first + self.lanes]),
            self.leap,
            self.leap * PATIENCE_LEAPS,
            frozenset(self._gone),
            slow=self._slow.get(self.number[node], frozenset()),
            stalled=frozenset(stalled),
        )

    def _holds(self, node: str) -> tuple[Runs, ...]:
        first = self.number[node] * self.lanes
        return tuple(self._runs(flow) for flow in range(first, first + self.lanes))

    def _runs(self, flow: int) -> Runs:
        newest = (self._start[flow], int(self.flows.top[flow] + _WHOLE))
        if flow not in self._older and not self.flows.in_gap[flow]:
            return (newest,) if newest[1] > newest[0] else ()
        filled = [(self._gap[flow], int(self.flows.place[flow] + _WHOLE))] if self.flows.in_gap[flow] else []
        return joined([*self._older.get(flow, ()), *filled, newest])

    def _follow(self, number: int, follow: Follow) -> list[str]:
        """Carries the decision out; tells who must decide again because this node leapt ahead of them."""
        flows, flow = self.flows, number * self.lanes + follow.lane
        self._settle(flow)
        runs = self._runs(flow)
        self._following[flow] = follow
        gap = follow.until < self.lengths[follow.lane] or flows.top[flow] >= self.lengths[follow.lane]
        leaps = not gap and follow.first > frontier(runs)
        in_newest = follow.first == int(flows.top[flow])
        if leaps:
            self._older[flow], self._start[flow] = runs, follow.first
            flows.top[flow] = follow.first
        flows.in_gap[flow] = not (leaps or in_newest)
        self._gap[flow] = follow.first
        flows.place[flow], flows.until[flow] = follow.first, follow.until
        flows.source[flow] = -1
        return self._followers(self.names[number]) if leaps else []

    def _connect(self, number: int) -> None:
        """Finds the ports of flows that have none, and whether all is there; still none while the source lacks just
        this and has later ones."""
        flows = self.flows
        for flow in range(number * self.lanes, (number + 1) * self.lanes):
            follow = self._following[flow]
            if follow is None or flows.source[flow] >= 0:
                continue
            if follow.source == STORE:
                flows.source[flow], flows.settled[flow] = len(self.names), True
                continue
            runs = self._holds(follow.source)[follow.lane]
            run = run_at(runs, int(flows.place[flow]))
            if run or flows.place[flow] >= frontier(runs):
                flows.source[flow] = self.number[follow.source]
                flows.settled[flow] = run is not None and run[1] >= follow.until

    def _followers(self, node: str) -> list[str]:
        targets = self.flows.target[self.flows.source == self.number[node]]
        return [self.names[number] for number in dict.fromkeys(targets.tolist())]

    def _settle(self, flow: int) -> None:
        """Drops the part of a piece under way, and writes down what was filled of a gap."""
        flows = self.flows
        flows.place[flow] = int(flows.place[flow] + _WHOLE)
        if flows.in_gap[flow]:
            self._older[flow] = joined(
                [*self._older.get(flow, ()), (self._gap[flow], int(flows.place[flow]))]
            )
            flows.in_gap[flow] = False
            flows.place[flow] = flows.top[flow]
        else:
            flows.top[flow] = flows.place[flow]
        older = self._older.get(flow)
        if older and flows.top[flow] == self._start[flow]:  # leapt and got nothing: as if it had not
            self._start[flow], flows.top[flow] = older[-1]
            flows.place[flow] = flows.top[flow]
            self._older[flow] = older[:-1]

    def _ended(self, flow: int, now: int) -> None:
        number, lane = divmod(flow, self.lanes)
        self._settle(flow)
        self._following[flow] = None
        self._astray.discard(flow)
        self.flows.source[flow] = -1
        if missing(self._runs(flow), self.lengths[lane]):
            self.decide([self.names[number]])
            return
        self._open[number] -= 1
        if not self._open[number]:
            self.finished[self.names[number]] = now


def _wiring(
    places: Sequence[Place], conditions: Conditions, slow: Mapping[str, int], weak: Mapping[str, int],
    lengths: Sequence[int],
) -> Wiring:  # fmt: skip
    racks = {rack: n for n, rack in enumerate(sorted({(place.block, place.rack) for place in places}))}
    rates = [slow.get(place.node, 100) / 100 for place in places]
    sends = [weak.get(place.node, slow.get(place.node, 100)) / 100 for place in places]
    return Wiring(
        lengths,
        [*sends, conditions.store_rate / conditions.node_rate],
        rates,
        [racks[place.block, place.rack] for place in places],
        conditions.uplink / conditions.node_rate,
    )
