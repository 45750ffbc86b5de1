"""A simulated fabric that drives the very planners and swarm functions that production uses.

What happens rarely (a node fails, is missed, returns; the coordinator mends) stands in one event heap and is decided
by `swarm.next_actions`, `repair.mend` and `pace.look`; what happens all the time, pieces moving, is done for all
flows at once in between. Time is counted in ticks: one piece at the usual rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from platform_core.distribution.planning.estimate import Conditions
from platform_core.distribution.planning.forest import Forest, Tree, node_plans
from platform_core.distribution.planning.repair import changed_nodes, mend
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.slow_nodes.pace import Watch, look
from platform_core.distribution.swarm.requests import LEAP_SECONDS
from platform_core.simulation.fabric.nodes import Nodes

_STUCK_MS = 120_000
_WATCH_PIECES = 8  # of a lane, in which at least one should come


@dataclass(frozen=True, slots=True)
class Failure:
    node: str
    at_ms: int
    back_ms: int | None = None  # None: never


@dataclass(frozen=True, slots=True)
class Scenario:
    """In percent of the usual rate: `slow` both ways, `weak` sending. What happens when is given, never drawn here."""

    places: tuple[Place, ...]
    conditions: Conditions
    slow: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    notice_ms: int = 1_000  # until neighbours miss a dead node
    watch_ms: int = 2_000  # how often a node looks for lanes that stall
    mend_ms: int = 2_000  # how often the coordinator mends
    measure_ms: int = 4_000  # over which it judges rates
    leap_ms: int = round(LEAP_SECONDS * 1000)
    step_ticks: int = 1
    weak: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    finished_ms: Mapping[str, int]  # those that are gone for good are missing
    store_copies: float
    cross_rack_copies: float
    steps: int
    decisions: int
    mended: int


class Fabric:
    """One transfer along what a planner made of the places, which the coordinator mends. `run` once."""

    def __init__(self, scenario: Scenario, forest: Forest) -> None:
        self._scenario, self._forest = scenario, forest
        self._nodes = Nodes(scenario.places, scenario.conditions, scenario.slow, scenario.weak, node_plans(forest),
                            self._ticks(scenario.leap_ms))  # fmt: skip
        # Large pieces come seldom, and every hop waits for a whole one.
        self._watch = max(self._ticks(scenario.watch_ms), _WATCH_PIECES * self._nodes.lanes)
        self._heap: list[tuple[int, int, str, str]] = []
        self._places = {place.node: place for place in scenario.places}
        self._dead: set[str] = set()
        self._for_good = {each.node for each in scenario.failures if each.back_ms is None}
        self._lost: set[str] = set()  # what the coordinator has heard and not yet acted on
        self._back: set[str] = set()
        self._slow: dict[str, int] = {}
        self._weak: dict[str, int] = {}
        self._paces: dict[str, int] = {}
        self._watched = Watch()
        self._mended = 0

    def run(self) -> Outcome:
        scenario, nodes = self._scenario, self._nodes
        self._schedule()
        nodes.decide(nodes.names)
        now = steps = moved = 0
        while nodes.open_count(self._dead & self._for_good):
            while self._heap and self._heap[0][0] <= now:
                _, _, kind, node = heappop(self._heap)
                self._happens(kind, node, now)
            until = self._heap[0][0] if self._heap else now + scenario.step_ticks
            ticks = max(1, min(scenario.step_ticks, until - now))
            now += ticks
            steps += 1
            if nodes.move(ticks, now):
                moved = now
            elif now - moved > max(self._ticks(_STUCK_MS), 9 * self._watch):
                names = nodes.unfinished()
                raise RuntimeError(f"nothing moved for {_STUCK_MS} ms; {len(names)} unfinished: {names[:5]}")
        copies = nodes.pieces or 1
        finished = {node: self._milliseconds(at) for node, at in nodes.finished.items()}
        flows = nodes.flows
        return Outcome(
            finished, flows.from_store / copies, flows.across / copies, steps, nodes.decisions, self._mended
        )

    # what happens

    def _schedule(self) -> None:
        scenario = self._scenario
        for failure in scenario.failures:
            self._at(self._ticks(failure.at_ms), "fails", failure.node)
            if failure.back_ms is not None:
                self._at(self._ticks(failure.back_ms), "returns", failure.node)
        self._at(self._watch, "watch")
        if scenario.failures or scenario.slow or scenario.weak:
            self._at(self._ticks(scenario.mend_ms), "mend")
            self._at(self._ticks(scenario.measure_ms), "measure")

    def _at(self, tick: int, kind: str, node: str = "") -> None:
        heappush(self._heap, (tick, len(self._heap), kind, node))

    def _happens(self, kind: str, node: str, now: int) -> None:
        match kind:
            case "fails":
                self._dead.add(node)
                self._nodes.fail(node)
                self._at(now + self._ticks(self._scenario.notice_ms), "missed", node)
            case "missed" if node in self._dead:
                self._lost.add(node)
                self._nodes.miss(node)
            case "returns":
                self._dead.discard(node)
                self._back.add(node)
                self._nodes.come_back(node, any(seat.node == node for seat in self._forest.seats))
            case "watch":
                self._nodes.watch(self._milliseconds(now))
                self._at(now + self._watch, "watch")
            case "mend":
                self._mend()
                self._at(now + self._ticks(self._scenario.mend_ms), "mend")
            case "measure":
                self._measure(now)
                self._at(now + self._ticks(self._scenario.measure_ms), "measure")

    def _mend(self) -> None:
        before = self._forest
        if not (self._lost or self._back or self._slow or self._weak):
            return
        back = [self._places[node] for node in sorted(self._back)]
        self._paces |= self._slow
        self._forest = mend(before, self._lost & self._dead, back, self._paces, self._weak)
        self._lost, self._back, self._slow, self._weak = set(), set(), {}, {}
        tree = Tree(self._forest)
        self._nodes.told([tree.plan_for(node) for node in changed_nodes(before, self._forest)])
        self._mended += 1

    def _measure(self, now: int) -> None:
        self._watched, changed = look(self._watched, self._nodes.seen(now), self._forest.seats)
        self._slow |= changed.paces
        self._weak |= changed.sends

    # time

    def _ticks(self, milliseconds: int) -> int:
        c = self._scenario.conditions
        return max(1, -(-milliseconds * c.node_rate // (c.piece_size * 1000)))

    def _milliseconds(self, ticks: int) -> int:
        c = self._scenario.conditions
        return -(-ticks * c.piece_size * 1000 // c.node_rate)
