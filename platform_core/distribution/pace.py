"""Who is slow: judged by what a node took of what was offered to it, never by what did not reach it.

Nodes tell what they have received and what they leave of what is offered; two such words make a window, in which each
node is a `Port`. A pace is changed only after several windows running, so that plans do not flap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

USUAL = 100
_SLOW_BELOW = 93  # percent of what is expected of it
_STEP = 10
_SLOW_AFTER, _QUICK_AFTER = 2, 3  # windows running
_NOTICED = 20  # this part of what a lane gets in a window may be left behind unnoticed


@dataclass(frozen=True, slots=True)
class Offer:
    """In one lane: whom a node follows ("" nobody, or the store), and how much of what that one has it lacks."""

    source: str
    left: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What a node told, in any one unit: all it has ever received, and by lane what it is offered."""

    at_ms: int
    received: float
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Port:
    """What was seen of a node in a window.

    `received` a second. `fell_behind`: lanes in which its source got further ahead of it; those below a slow node
    receive little too, but take all there is. `alone`: such lanes in which most others of the same source kept up with
    it; the followers of an overloaded source are late together.
    """

    received: int
    fell_behind: int
    alone: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen when the window began, and who looked slower or quicker than it counts, how often running."""

    seen: Mapping[str, Seen] = field(default_factory=dict)
    doubts: Mapping[str, int] = field(default_factory=dict)


def look(
    watch: Watch,
    now: Mapping[str, Seen],
    racks: Mapping[str, str],
    paces: Mapping[str, int],
    jitter_ms: int = 0,
) -> tuple[Watch, dict[str, int]]:
    """The end of one window and the beginning of the next; and the paces, in percent, that are others by now."""
    changed, doubts = judge(ports(watch.seen, now, racks, jitter_ms), paces, watch.doubts)
    return Watch(now, doubts), changed


def ports(
    before: Mapping[str, Seen], now: Mapping[str, Seen], racks: Mapping[str, str], jitter_ms: int = 0
) -> dict[str, Port]:
    """Those of whom there is news. `jitter_ms`: by so much two words of one node may differ in age.

    A crowded uplink of a rack is nobody's fault: lanes that come from the own rack tell, if there are any.
    """
    windows = {
        node: (before[node], seen)
        for node, seen in sorted(now.items())
        if node in before and seen.at_ms > before[node].at_ms
    }
    rates = {
        n: (new.received - old.received) * 1000 / (new.at_ms - old.at_ms) for n, (old, new) in windows.items()
    }
    quickest = max(rates.values(), default=0.0) / 1000
    followers, late = Counter[str](), Counter[str]()
    fell: dict[str, list[str]] = {}
    for node, (old, new) in windows.items():
        noticed = quickest * ((new.at_ms - old.at_ms) / _NOTICED + jitter_ms) / max(1, len(new.offers))
        kept = [
            (b, a) for b, a in zip(old.offers, new.offers, strict=False) if a.source and a.source == b.source
        ]
        near = [(b, a) for b, a in kept if racks.get(a.source) == racks.get(node)]
        fell[node] = [a.source for b, a in near or kept if a.left - b.left > noticed]
        followers.update(a.source for _, a in kept)
        late.update(fell[node])
    # Where most followers of a source fall behind, the source is to blame.
    return {
        node: Port(
            round(rates[node]), len(sources), sum(late[source] * 2 <= followers[source] for source in sources)
        )
        for node, sources in fell.items()
    }


def judge(
    ports: Mapping[str, Port], paces: Mapping[str, int], doubts: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Paces that are others by now, and who is in doubt for the next window. `paces`: of those that are not as usual.

    One slow source makes one lane fall behind, so it takes two lanes to accuse a node. Paces are rounded to steps, so
    that nodes alike stand together; one that became quicker must be so by more than a step.
    """
    usual = median([p.received for node, p in ports.items() if paces.get(node, USUAL) == USUAL] or [0])
    changed: dict[str, int] = {}
    doubted: dict[str, int] = {}
    for node, port in sorted(ports.items()):
        known = paces.get(node, USUAL)
        looks = _pace(port.received, usual) if usual else known
        slower = (
            port.received * 100 < usual * known * _SLOW_BELOW / USUAL and port.fell_behind > 1 and port.alone
        )
        quicker = looks == USUAL > known or looks > known + _STEP
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
