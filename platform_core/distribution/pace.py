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
from typing import TypeAlias

from platform_core.distribution.forest import STORE, Seat

USUAL = 100
# Percent of what is expected of a node; apart, or who is near them goes to and fro.
_SLOW_BELOW, _USUAL_FROM = 93, 97
_STEP = 10
_SLOW_AFTER, _QUICK_AFTER = 2, 3  # windows running
# In a chain: who gets less than this percent is accused, this part of the nodes at most at a time; and nobody for so
# many windows after one has moved, as all below it catch up.
_FAR_BELOW, _OF_A_CHAIN, _SETTLED_AFTER = 50, 20, 3
_REMEMBERED = 0.9  # of what was usual, from window to window
_NOTICED = 20  # this part of what a lane gets in a window may be left behind unnoticed


@dataclass(frozen=True, slots=True)
class Seen:
    """What a node told of itself, in any one unit: how much of each lane it holds."""

    at_ms: int
    held: tuple[float, ...]


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


def look(
    watch: Watch, now: Mapping[str, Seen], seats: Iterable[Seat], jitter_ms: int = 0
) -> tuple[Watch, dict[str, int]]:
    """The end of one window and the beginning of the next; and the paces, in percent, that are others by now.
    `jitter_ms`: so much of what a lane gets may be missed by when it was counted."""
    places = {seat.node: seat for seat in seats}
    paces = {seat.node: seat.pace for seat in places.values() if seat.pace != USUAL}
    rates = rates_of(watch.seen, now, places)
    if rates and _is_a_chain(places):
        return _look_at_a_chain(watch, now, places, rates, jitter_ms)
    # When one holds up all others, what they get now is no measure for it.
    like_others = [sum(lanes) for node, lanes in rates.items() if node not in paces]
    usual = max(median(like_others or [0.0]), watch.usual * _REMEMBERED)
    seen = ports(watch.seen, now, places, rates, usual, jitter_ms)
    changed, doubts = judge(seen, paces, watch.doubts, usual)
    return Watch(now, usual, doubts), changed


Rates: TypeAlias = Mapping[str, tuple[float, ...]]  # by node, what it got a second in each lane


def rates_of(before: Mapping[str, Seen], now: Mapping[str, Seen], seats: Mapping[str, Seat]) -> Rates:
    """Of those of whom there is news, and who have not lost what they held."""
    return {
        node: tuple(
            (b - a) * 1000 / (seen.at_ms - old.at_ms) for a, b in zip(old.held, seen.held, strict=True)
        )
        for node, seen in sorted(now.items())
        if node in seats
        and (old := before.get(node))
        and seen.at_ms > old.at_ms
        and len(seen.held) == len(old.held)
        and sum(seen.held) >= sum(old.held)
    }


def ports(
    before: Mapping[str, Seen], now: Mapping[str, Seen], seats: Mapping[str, Seat], rates: Rates, usual: float,
    jitter_ms: int = 0,
) -> dict[str, Port]:  # fmt: skip
    """A crowded uplink of a rack is nobody's fault: lanes that come from the own rack tell, if there are any."""
    followers, late = Counter[str](), Counter[str]()
    fell: dict[str, list[str]] = {}
    for node, lanes in rates.items():
        old, new = before[node], now[node]
        at_most = usual / max(1, len(lanes)) * (new.at_ms - old.at_ms) / 1000
        noticed = at_most * (1 / _NOTICED + jitter_ms / (new.at_ms - old.at_ms))
        known = [(p, lane) for lane, p in enumerate(seats[node].parents) if p in rates and lane < len(lanes)]
        near = [(parent, lane) for parent, lane in known if seats[parent].rack == seats[node].rack]
        fell[node] = []
        for parent, lane in near or known:
            # As much as the parent held when the node told: their words are of different times.
            there = now[parent].held[lane] + rates[parent][lane] * (new.at_ms - now[parent].at_ms) / 1000
            if min(at_most, there - old.held[lane]) - (new.held[lane] - old.held[lane]) > noticed:
                fell[node].append(parent)
        followers.update(parent for parent, _ in known)
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
) -> tuple[Watch, dict[str, int]]:
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
        if parent not in rates or received[parent] - received[node] < usual * (1 / _NOTICED + missed):
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
    return Watch(now, usual, doubts, accused, settling), changed


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
