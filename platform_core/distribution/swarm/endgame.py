"""The endgame: near the end of a delivery a node leaves a slow sender if another has the missing pieces.

While all lanes move, the coordinator finds slow senders (`slow_nodes.senders`) and moves them in the plan. Near the end
nothing is planned any more, most links are idle, and one slow sender would delay its followers for as long as all
before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import sub

from platform_core.distribution.planning.forest import lane_length
from platform_core.distribution.swarm.requests import Follow, View
from platform_core.distribution.swarm.runs import count, run_at

_HARDLY = 2  # so many times less than a lane usually got; by now the links are idle, and it should be more
_LOOK_MS, _AVOIDED_MS = 1_500, 60_000


@dataclass(frozen=True, slots=True)
class Ending:
    """What a node remembers between looks: when it began and its pieces then; for each lane what it held at the last
    look and whom it followed; whom it avoids, and until when.
    """

    began_ms: int
    had: tuple[int, ...] = ()  # none, if not told
    usual: float = 0.0  # pieces of the best lane in a millisecond, until the first lane was full
    looked_ms: int = 0
    held: tuple[int, ...] = ()
    following: tuple[Follow | None, ...] = ()
    avoided: Mapping[str, int] = field(default_factory=dict)

    def slow(self, now_ms: int) -> frozenset[str]:
        return frozenset(name for name, until_ms in self.avoided.items() if until_ms > now_ms)


def look(ending: Ending, view: View, now_ms: int) -> Ending:
    """May be called at any rate: it looks every 1.5 s. No sender is blamed before a lane is full."""
    if now_ms - ending.looked_ms < _LOOK_MS:
        return ending
    held = tuple([count(runs) for runs in view.holds])
    still, before = _incomplete(view, held), _incomplete(view, ending.held)
    usual, suspects = ending.usual, set[str]()
    if len(still) == len(held) or not usual:
        usual = max(map(sub, held, ending.had or (0,) * len(held))) / max(1, now_ms - ending.began_ms)
    elif len(before) == len(held):  # after a slow start most of a lane may come between two looks
        usual = max(usual, max(map(sub, held, ending.held)) / (now_ms - ending.looked_ms))
    if len(still) < len(held) == len(ending.held):
        least = usual / _HARDLY * (now_ms - ending.looked_ms)
        crawling = [lane for lane in still if held[lane] - ending.held[lane] < least]
        suspects = {source for lane in crawling if (source := _left(ending, view, lane))}
    avoided = {name: until for name, until in ending.avoided.items() if until > now_ms}
    avoided |= dict.fromkeys(suspects, now_ms + _AVOIDED_MS)
    return replace(
        ending, usual=usual, looked_ms=now_ms, held=held, following=view.following, avoided=avoided
    )


def _incomplete(view: View, held: Sequence[int]) -> list[int]:
    """The lanes of which pieces are missing."""
    lanes = len(held)
    return [lane for lane in range(lanes) if held[lane] < lane_length(view.pieces, lane, lanes)]


def _left(ending: Ending, view: View, lane: int) -> str:
    """The source that the lane has followed all the time, if another has more of what comes next than was to come; else
    "".
    """
    now, before = view.following[lane], ending.following[lane]
    if now is None or before is None or now.source != before.source or now.source not in view.neighbours:
        return ""
    so_far = run_at(view.holds[lane], now.first)
    place = so_far[1] if so_far else now.first
    enough = min(now.until, place + view.leap)
    runs = (run_at(theirs[lane], place) for name, theirs in view.neighbours.items() if name not in view.gone)
    return now.source if any(run and run[1] >= enough for run in runs) else ""
