"""Who is slow: judged by what a node took of what was offered to it, never by what did not reach it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median

_SLOW_BELOW = 93  # percent of the median
_STEP = 10


@dataclass(frozen=True, slots=True)
class Port:
    """What was seen of a node in a window.

    `fell_behind`: lanes in which its source got further ahead of it; those below a slow node receive little too, but
    take all there is. `alone`: such lanes in which most others of the same source kept up with it; the followers of
    an overloaded source are late together.
    """

    received: int
    fell_behind: int
    alone: int


def paces(ports: Mapping[str, Port], suspects: Collection[str]) -> tuple[dict[str, int], frozenset[str]]:
    """Paces, in percent, of nodes that were slow in two windows running; and who is suspected for the next one.

    One slow source makes one lane fall behind, so it takes two lanes to accuse a node. Paces are rounded to steps, so
    that nodes alike stand together.
    """
    usual = median(port.received for port in ports.values()) if ports else 0
    slow = {
        node: port.received
        for node, port in sorted(ports.items())
        if port.received * 100 < usual * _SLOW_BELOW and port.fell_behind > 1 and port.alone
    }
    sure = {
        node: max(_STEP, round(received * 100 / usual / _STEP) * _STEP)
        for node, received in slow.items()
        if node in suspects
    }
    return sure, frozenset(slow) - frozenset(sure)
