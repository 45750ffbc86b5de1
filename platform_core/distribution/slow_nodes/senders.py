"""Slow senders: a link that is bad in one direction, or a cap.

The followers of a slow sender are late in the lane that comes from it and in no other. It receives at full rate, so its
pace shows nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from platform_core.distribution.planning.forest import USUAL, Seat
from platform_core.distribution.slow_nodes.windows import Window

_BELOW = 60  # percent of what is expected of a sender, which also helps others to fill their gaps
_CLEARLY_BELOW = 75  # percent of what a follower's other lanes get
_TAKES = 80  # percent of the usual
_STEP = 10
_AFTER = 3  # windows running


def look_at_senders(
    window: Window, seats: Mapping[str, Seat], usual: float, doubts: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """The senders below their assumed rate, in percent of the usual, and those in doubt.

    What a node could send shows only while it is wanted, so a lowered rate is never raised again.
    """
    changed: dict[str, int] = {}
    doubted: dict[str, int] = {}
    for node, percent in weak(window, seats, usual).items():
        if percent >= seats[node].sends:
            continue
        doubted[node] = doubts.get(node, 0) + 1
        if doubted[node] >= _AFTER:
            changed[node] = percent
            del doubted[node]
    return changed, doubted


def weak(window: Window, seats: Mapping[str, Seat], usual: float) -> dict[str, int]:
    """Senders most of whose followers fall behind in its lane while their other lanes go clearly better, in percent of
    what they should send.

    If most traffic between racks is late, the uplinks are crowded: then only traffic within racks counts.
    """
    rates = window.rates
    if len(rates) * 2 < len(seats):  # the end, when all fill gaps
        return {}
    fed: dict[str, list[tuple[str, int, bool]]] = defaultdict(list)
    crossing = []
    for node, lanes in rates.items():
        for lane, parent in enumerate(seats[node].parents[: len(lanes)]):
            if parent not in rates or min(seats[node].pace, seats[parent].pace) < USUAL:
                continue
            late = window.left(node, lane, parent, _a_second(window, parent, lane, usual))
            others = sum(lanes) - lanes[lane]
            worse = lanes[lane] * (len(lanes) - 1) * 100 < others * _CLEARLY_BELOW
            fed[parent].append((node, lane, late and worse))
            if seats[node].rack != seats[parent].rack:
                crossing.append(late)
    uplinks_tell = sum(crossing) * 2 <= len(crossing)
    slow = {}
    for parent, every in fed.items():
        followers = [each for each in every if uplinks_tell or seats[each[0]].rack == seats[parent].rack]
        takes_less = sum(rates[parent]) * 100 < usual * _TAKES  # then it is slow, and its pace tells
        if takes_less or sum(late for _, _, late in followers) * 2 <= len(followers):
            continue
        sent = sum(rates[node][lane] for node, lane, _ in followers)
        each = max(_a_second(window, parent, lane, usual) for _, lane, _ in followers)
        percent = sent * 100 / (each * min(len(followers), len(rates[parent]))) if each else 100
        if percent < _BELOW:
            slow[parent] = int(percent) // _STEP * _STEP
    return slow


def _a_second(window: Window, parent: str, lane: int, usual: float) -> float:
    """What a lane should get from it per second. When slow senders delay everybody, the usual rate is no measure."""
    return max(usual / len(window.rates[parent]), window.rates[parent][lane])
