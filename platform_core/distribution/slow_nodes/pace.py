"""Slow receivers: a node is judged by what it took of what was offered, never by what did not reach it.

Nodes report how much of each lane they hold. Two reports make a window, in which each node is a `Port`: it was offered
what its parents in the plan had. A pace changes only after several windows in a row, so that plans do not flap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from platform_core.distribution.planning.forest import STORE, USUAL, Seat
from platform_core.distribution.slow_nodes.senders import look_at_senders
from platform_core.distribution.slow_nodes.windows import NOTICED, Rates, Seen, Window, rates_of

# Percent of what is expected of a node; apart, or who is near them goes to and fro.
_SLOW_BELOW, _USUAL_FROM = 93, 97
_STEP = 10
_SLOW_AFTER, _QUICK_AFTER = 2, 3  # windows running
# In a chain: who gets less than this percent is accused, this part of the nodes at most at a time; and nobody for so
# many windows after one has moved, as all below it catch up.
_FAR_BELOW, _OF_A_CHAIN, _SETTLED_AFTER = 50, 20, 3
_REMEMBERED = 0.9  # of what was usual, from window to window


@dataclass(frozen=True, slots=True)
class Port:
    """One node in one window.

    `received` is per second. `fell_behind`: lanes in which it took less than its parent had for it; nodes below a slow
    one receive little too, but take all there is. `alone`: such lanes in which most other followers of the parent kept
    up; the followers of an overloaded parent are late together.
    """

    received: int
    fell_behind: int
    alone: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The reports at the start of the window, what a node usually receives per second, and which nodes looked slower or
    quicker than their pace, and in how many windows in a row.
    """

    seen: Mapping[str, Seen] = field(default_factory=dict)
    usual: float = 0.0
    doubts: Mapping[str, int] = field(default_factory=dict)
    # In a chain: who was accused, with whom it received from; and for how many windows nobody is.
    accused: Mapping[str, str] = field(default_factory=dict)
    settling: int = 0
    # Who looked as if it sent slowly, how often running.
    weak: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Nodes with a new pace, and nodes that send less than assumed, in percent of the usual rate."""

    paces: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.paces or self.sends)


def look(
    watch: Watch, now: Mapping[str, Seen], seats: Iterable[Seat], jitter_ms: int = 0
) -> tuple[Watch, Changes]:
    """Ends one window and begins the next; returns the changes.

    `jitter_ms`: the counts of a lane may be off by what it receives in that time.
    """
    places = {seat.node: seat for seat in seats}
    paces = {seat.node: seat.pace for seat in places.values() if seat.pace != USUAL}
    rates = rates_of(watch.seen, now, places)
    if rates and _is_a_chain(places):
        return _look_at_a_chain(watch, now, places, rates, jitter_ms)
    # When one holds up all others, what they get now is no measure for it.
    like_others = [sum(lanes) for node, lanes in rates.items() if node not in paces]
    usual = max(median(like_others or [0.0]), watch.usual * _REMEMBERED)
    window = Window(watch.seen, now, rates, jitter_ms)
    changed, doubts = judge(ports(window, places, usual), paces, watch.doubts, usual)
    sends, weak = look_at_senders(window, places, usual, watch.weak)
    return Watch(now, usual, doubts, weak=weak), Changes(changed, sends)


def ports(window: Window, seats: Mapping[str, Seat], usual: float) -> dict[str, Port]:
    followers, late = Counter[str](), Counter[str]()
    fell: dict[str, list[str]] = {}
    rates = window.rates
    for node, lanes in rates.items():
        a_second = usual / max(1, len(lanes))
        fell[node] = [
            parent
            for parent, lane in _sources(seats[node], seats, rates)
            if lane < len(lanes) and window.left(node, lane, parent, a_second)
        ]
        followers.update(parent for parent in seats[node].parents if parent in rates or parent == STORE)
        late.update(fell[node])
    # Where most followers of a parent fall behind, the parent is to blame.
    return {
        node: Port(
            round(sum(rates[node])),
            len(parents),
            sum(late[parent] * 2 <= followers[parent] for parent in parents),
        )
        for node, parents in fell.items()
    }


def _is_a_chain(seats: Mapping[str, Seat]) -> bool:
    """True for one lane in which no node feeds two: a node that feeds two splits its rate, so less arrives below."""
    parents = [parent for seat in seats.values() for parent in seat.parents if parent != STORE]
    return len(set(parents)) == len(parents) and all(len(seat.parents) == 1 for seat in seats.values())


def _look_at_a_chain(
    watch: Watch, now: Mapping[str, Seen], seats: Mapping[str, Seat], rates: Rates, jitter_ms: int
) -> tuple[Watch, Changes]:
    """In a chain a slow receiver cannot be told from a slow sender before it. Moving a node to the end costs little, so
    that is tried, once for each node that may be the cause.
    """
    received = {node: round(lanes[0]) for node, lanes in rates.items()}
    # Nobody below a slow node gets more than it does, so the most is what is usual.
    usual = max(*received.values(), watch.usual * _REMEMBERED)
    paces = {node: seats[node].pace for node in rates if seats[node].pace != USUAL}
    every = {node: Port(rate, 0, 0) for node, rate in received.items()}
    changed, doubts = judge(every, paces, watch.doubts, usual)
    accused = {node: of for node, of in watch.accused.items() if changed.get(node) != USUAL and node in seats}
    for node in () if watch.settling else sorted(rates):
        looks, parent = _pace(received[node], usual), seats[node].parents[0]
        # Not what they hold: one that leapt lacks what it left out for long.
        missed = jitter_ms / (now[node].at_ms - watch.seen[node].at_ms)
        if parent not in rates or received[parent] - received[node] < usual * (1 / NOTICED + missed):
            continue
        if node in accused:  # it takes as little from another, so it is not the first who gives little
            accused[node] = parent
        if looks >= min(seats[node].pace, _FAR_BELOW) or any(
            of == parent and one != node for one, of in accused.items()
        ):
            continue
        doubts[node] = watch.doubts.get(node, 0) + 1
        if doubts[node] >= _SLOW_AFTER and len(accused) < max(1, len(seats) // _OF_A_CHAIN):
            del doubts[node]
            changed[node], accused[node] = looks, parent
    settling = _SETTLED_AFTER if changed else max(0, watch.settling - 1)
    return Watch(now, usual, doubts, accused, settling), Changes(changed)


def judge(
    ports: Mapping[str, Port], paces: Mapping[str, int], doubts: Mapping[str, int], usual: float
) -> tuple[dict[str, int], dict[str, int]]:
    """The changed paces, and the nodes in doubt for the next window. `paces`: those that differ from the usual.

    One slow source delays one lane, so two lanes are needed to accuse a node. Paces are rounded to steps so that like
    nodes stay together; a node that became quicker must be so by more than a step.
    """
    changed: dict[str, int] = {}
    doubted: dict[str, int] = {}
    for node, port in sorted(ports.items()):
        known = paces.get(node, USUAL)
        looks = _pace(port.received, usual) if usual else known
        slower = (
            port.received * 100 < usual * known * _SLOW_BELOW / USUAL and port.fell_behind > 1 and port.alone
        )
        again = port.received * 100 >= usual * _USUAL_FROM
        quicker = again if looks == USUAL else looks > known + _STEP
        if looks == known or not (slower or quicker):
            continue
        doubted[node] = doubts.get(node, 0) + 1
        if doubted[node] >= (_SLOW_AFTER if slower else _QUICK_AFTER):
            changed[node] = looks
            del doubted[node]
    return changed, doubted


def _pace(received: int, usual: float) -> int:
    if received * 100 >= usual * _SLOW_BELOW:
        return USUAL
    return max(_STEP, round(received * 100 / usual / _STEP) * _STEP)


def _sources(seat: Seat, seats: Mapping[str, Seat], rates: Rates) -> list[tuple[str, int]]:
    """The lanes in which the node can be judged, with their parents. On a crowded uplink only parents of the own rack
    count, if there are two of them. The store, which may give one root less than another, counts for one lane.
    """
    known = [(parent, lane) for lane, parent in enumerate(seat.parents) if parent in rates]
    near = [(parent, lane) for parent, lane in known if seats[parent].rack == seat.rack]
    pulls = [(STORE, lane) for lane, parent in enumerate(seat.parents) if parent == STORE]
    return near if len(near) > 1 else known + pulls[:1]
