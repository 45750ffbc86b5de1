"""Who is slow: judged by what a node took of what was offered to it, never by what did not reach it.

Nodes tell how much of each lane they hold; two such words make a window, in which each node is a `Port`: what was
offered to it is what its parents in the plan got. A pace is changed only after several windows running, so that plans
do not flap.
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
    """What was seen of a node in a window.

    `received` a second. `fell_behind`: lanes in which it took less than its parent had for it; those below a slow node
    receive little too, but take all there is. `alone`: such lanes in which most others of the same parent kept up with
    it; the followers of an overloaded parent are late together.
    """

    received: int
    fell_behind: int
    alone: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen when the window began; what a node usually receives in a second; and who looked slower or quicker
    than it counts, how often running."""

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
    """Of whom another pace is known by now, and who sends less than it counted for; in percent of the usual."""

    paces: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.paces or self.sends)


def look(
    watch: Watch, now: Mapping[str, Seen], seats: Iterable[Seat], jitter_ms: int = 0
) -> tuple[Watch, Changes]:
    """The end of one window and the beginning of the next; and what is another by now.
    `jitter_ms`: so much of what a lane gets may be missed by when it was counted."""
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
    """One lane, and nobody feeds two: who does shares out what it sends, and those below get less by right."""
    parents = [parent for seat in seats.values() for parent in seat.parents if parent != STORE]
    return len(set(parents)) == len(parents) and all(len(seat.parents) == 1 for seat in seats.values())


def _look_at_a_chain(
    watch: Watch, now: Mapping[str, Seen], seats: Mapping[str, Seat], rates: Rates, jitter_ms: int
) -> tuple[Watch, Changes]:
    """A chain does not tell whether a node takes little or the one before it gives little. To move a node to where
    nobody waits for it costs little, so that is tried: once for each that it may have received from."""
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
    """Paces that are others by now, and who is in doubt for the next window. `paces`: of those that are not as usual.

    One slow source makes one lane fall behind, so it takes two lanes to accuse a node. Paces are rounded to steps, so
    that nodes alike stand together; one that became quicker must be so by more than a step.
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
    """Parents of whom something is known, and lanes. A crowded uplink of a rack is nobody's fault: those of the own
    rack tell, if there are two of them, as it takes two lanes to accuse a node. The store, which may give one root less
    than another, counts for one lane."""
    known = [(parent, lane) for lane, parent in enumerate(seat.parents) if parent in rates]
    near = [(parent, lane) for parent, lane in known if seats[parent].rack == seat.rack]
    pulls = [(STORE, lane) for lane, parent in enumerate(seat.parents) if parent == STORE]
    return near if len(near) > 1 else known + pulls[:1]
