"""Estimates of each strategy before anything moves: its time against the bound, and the load of the links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from platform_core.distribution.planning import binary_tree, bounds, chain, mesh, pipelines, sequential
from platform_core.distribution.planning.forest import STORE, Forest, depths, most_children
from platform_core.distribution.planning.routes import Link, Place, crossings

# What the mesh may take longer, by estimate, before another strategy is worth what failures and slow nodes cost there.
MESH_TIMES, MESH_MS = 1.1, 1_000

Planner = Callable[[tuple[Place, ...]], tuple[Link, ...]]
RackKey = tuple[str, str]
STRATEGIES: Mapping[str, Planner] = {
    "chain": chain.plan,
    "pipelines": pipelines.plan,
    "binary_tree": binary_tree.plan,
    "sequential": sequential.plan,
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Sizes in bytes, rates in bytes per second. `uplink` is what a rack can send and receive; 0 is no limit.

    `caps`: nodes whose rate is limited below that of their links.
    """

    total_bytes: int
    piece_size: int
    store_rate: int
    node_rate: int
    uplink: int = 0
    caps: Mapping[str, bounds.Rates] = field(default_factory=dict)

    def port(self, node: str) -> bounds.Rates:
        cap = self.caps.get(node)
        if cap is None:
            return bounds.Rates(self.node_rate, self.node_rate)
        return bounds.Rates(min(self.node_rate, cap.up), min(self.node_rate, cap.down))


@dataclass(frozen=True, slots=True)
class Estimate:
    strategy: str
    time_ms: int
    bound_ms: int
    store_copies: int
    cross_rack_copies: int
    most_sent_copies: int  # by the busiest worker
    most_uplink_copies: int  # into or out of the busiest rack, those from the store too

    @property
    def ratio(self) -> float:
        return self.time_ms / self.bound_ms if self.bound_ms else 1.0


def compare(places: tuple[Place, ...], conditions: Conditions) -> tuple[Estimate, ...]:
    """All strategies, the quickest first; among equals the one with the least load of the store, then of the racks."""
    estimates = [estimate(name, planner(places), places, conditions) for name, planner in STRATEGIES.items()]
    estimates.append(estimate_mesh(mesh.plan(places), places, conditions))
    return tuple(
        sorted(estimates, key=lambda e: (e.time_ms, e.store_copies, e.cross_rack_copies, e.strategy))
    )


def choose(places: tuple[Place, ...], conditions: Conditions) -> str:
    """The strategy that `auto` stands for, among those that read one copy from the store: the mesh, unless another is
    quicker by more than a tenth and more than a second.

    The estimates assume no failures, which the mesh tolerates best.
    """
    best = [each for each in compare(places, conditions) if each.store_copies <= 1]
    if not best:
        return "mesh"
    enough = max(MESH_TIMES * best[0].time_ms, best[0].time_ms + MESH_MS)
    alike = {each.strategy for each in best if each.time_ms <= enough}
    return "mesh" if "mesh" in alike else best[0].strategy


def estimate(
    strategy: str, links: tuple[Link, ...], places: tuple[Place, ...], conditions: Conditions
) -> Estimate:
    """Exact if each node sends each piece to its successors in turn, rates are equal but for caps, nothing fails."""
    sends = Counter(link.predecessors[0] for link in links if link.predecessors)
    rack = {place.node: (place.block, place.rack) for place in places}
    edges = ((rack[link.predecessors[0]] if link.predecessors else None, rack[link.node]) for link in links)
    return Estimate(
        strategy=strategy,
        time_ms=_time_ms(links, places, conditions),
        bound_ms=bound_ms(places, conditions),
        store_copies=sum(not link.predecessors for link in links),
        cross_rack_copies=crossings(links, places),
        most_sent_copies=max(sends.values(), default=0),
        most_uplink_copies=_busiest_uplink(edges),
    )


def estimate_mesh(forest: Forest, places: tuple[Place, ...], conditions: Conditions) -> Estimate:
    """The slowest of the store, a port and a rack's uplink sets the pace of the last node; each hop costs as many
    pieces as there are lanes, because a slot carries one lane's share of a link.

    Nodes with limited upload feed fewer others, so they count together, in the bound.
    """
    c = conditions
    rack = {seat.node: seat.rack for seat in forest.seats}
    edges = [(rack.get(parent), seat.rack) for seat in forest.seats for parent in seat.parents]
    crossing = [edge for edge in edges if edge[0] not in (None, edge[1])]
    busiest = _busiest_uplink(edges)
    rate = min((c.store_rate, c.node_rate, *(c.port(place.node).down for place in places)))
    least = bound_ms(places, c)
    if c.uplink and busiest:
        rate = min(rate, c.uplink * forest.lanes // busiest)
    rounds = mesh.estimate_rounds(
        -(-c.total_bytes // c.piece_size), max(depths(forest), default=0), forest.lanes
    )
    return Estimate(
        strategy="mesh",
        time_ms=max(least, -(-rounds * min(c.piece_size, c.total_bytes) * 1000 // rate)),
        bound_ms=least,
        store_copies=1 if forest.seats else 0,
        cross_rack_copies=-(-len(crossing) // forest.lanes),
        most_sent_copies=-(-most_children(forest.seats) // forest.lanes),
        most_uplink_copies=-(-busiest // forest.lanes),
    )


def bound_ms(places: tuple[Place, ...], conditions: Conditions) -> int:
    """The largest of the bounds that apply."""
    c = conditions
    uplink = bounds.Rates(c.uplink, c.uplink) if c.uplink else None
    ports: dict[RackKey, list[bounds.Rates]] = {}
    for place in places:
        ports.setdefault((place.block, place.rack), []).append(c.port(place.node))
    racks = [bounds.Rack(tuple(workers), uplink) for workers in ports.values()]
    by_racks = bounds.rack_ms(c.total_bytes, c.store_rate, racks) if racks else 0
    fastest = max(c.store_rate, c.node_rate)
    return max(by_racks, bounds.rounds_ms(c.total_bytes, c.piece_size, len(places), fastest))


def _busiest_uplink(edges: Iterable[tuple[RackKey | None, RackKey]]) -> int:
    """The load in one direction of the busiest rack; None is the store, which stands outside all racks."""
    crossing = [(source, to) for source, to in edges if source != to]
    leaving = Counter(source for source, _ in crossing if source is not None)
    entering = Counter(to for _, to in crossing)
    return max((*leaving.values(), *entering.values()), default=0)


def _time_ms(links: tuple[Link, ...], places: tuple[Place, ...], conditions: Conditions) -> int:
    """A worker gets its first piece after those before it, and then one piece per period.

    The period is that of the slowest step above it: a sender with c successors needs c sends for each piece, and a rack
    whose uplink carries k copies needs k sends.
    """
    c = conditions
    pieces = -(-c.total_bytes // c.piece_size)
    piece = min(c.piece_size, c.total_bytes) * 1000  # byte-milliseconds per second: exact until the end
    rack = {place.node: (place.block, place.rack) for place in places}
    fan_out = Counter(link.predecessors[0] if link.predecessors else STORE for link in links)
    leaving, entering = _rack_loads(links, rack)
    turn: Counter[str] = Counter()
    reached: dict[
        str, tuple[int, int]
    ] = {}  # node → (first piece, period), both in units of piece / node_rate
    unit, latest = c.store_rate * c.node_rate * (c.uplink or 1), 0
    for link in links:
        parent = link.predecessors[0] if link.predecessors else STORE
        rate = c.port(parent).up if parent != STORE else c.store_rate
        first, period = reached.get(parent, (0, 0))
        turn[parent] += 1
        step = max(unit // rate, unit // c.port(link.node).down)
        period = max(period, fan_out[parent] * (unit // rate), step)
        crosses = parent != STORE and rack[parent] != rack[link.node]
        if c.uplink and crosses:
            copies = max(leaving[rack[parent]], entering[rack[link.node]])
            period = max(period, copies * (unit // c.uplink))
            step = max(step, unit // c.uplink)
        first += max(turn[parent] * (unit // rate), step)
        reached[link.node] = (first, period)
        latest = max(latest, first + (pieces - 1) * period)
    return -(-latest * piece // unit)


def _rack_loads(
    links: tuple[Link, ...], rack: Mapping[str, RackKey]
) -> tuple[Counter[RackKey], Counter[RackKey]]:
    leaving: Counter[RackKey] = Counter()
    entering: Counter[RackKey] = Counter()
    for link in links:
        if link.predecessors and rack[link.predecessors[0]] != rack[link.node]:
            leaving[rack[link.predecessors[0]]] += 1
            entering[rack[link.node]] += 1
    return leaving, entering
