"""What a node asks of whom next: a pure function of its plan, what it holds, and what it knows of its neighbours.

A node does not ask for pieces one by one. It follows: "send me this lane in order, each piece as soon as you have
verified it". So while nothing goes wrong no decision is needed at all, and no message but the pieces themselves.
Decisions come with news: a neighbour gone, back, slow or stalled, a new plan, the end of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from platform_core.distribution.forest import STORE, NodePlan, lane_length
from platform_core.distribution.runs import Run, Runs, frontier, missing, run_at


@dataclass(frozen=True, slots=True)
class Follow:
    """Wanted from `source`: the lane's pieces from `first` to before `until`. Replaces what was wanted in the lane."""

    lane: int
    source: str
    first: int
    until: int


@dataclass(frozen=True, slots=True)
class View:
    """What a node knows. Numbers of pieces are those within the lane; held means verified and on disk.

    `leap`: a node that is further behind its source than so many pieces of a lane goes on where that one is, so that
    those who follow it are not late as well, and fills the gap when the lane is done. `patience`: how far a source
    may be behind and still be waited for, and by how much more another must be ahead before a lane that stalls
    leaves the source that the plan prefers; several times `leap`, because each hop may add one.
    """

    pieces: int
    holds: tuple[Runs, ...]  # by lane
    neighbours: Mapping[str, tuple[Runs, ...]]
    following: tuple[Follow | None, ...]
    leap: int
    patience: int
    gone: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    stalled: frozenset[int] = frozenset()  # lanes that had begun and in which nothing came for too long


def next_actions(plan: NodePlan, view: View) -> tuple[Follow, ...]:
    """What to ask anew; lanes that go well, or are complete, are left alone."""
    wanted = (_wanted(plan, view, lane) for lane in range(len(plan.lanes)))
    return tuple(follow for follow in wanted if follow and not _is_under_way(follow, view))


def sendable(runs: Runs, follow: Follow) -> Run | None:
    """What may be sent to a follower now: the verified pieces at its place, none that is only being received."""
    run = run_at(runs, follow.first)
    return (follow.first, min(run[1], follow.until)) if run and follow.first < follow.until else None


def _wanted(plan: NodePlan, view: View, lane: int) -> Follow | None:
    """The newest pieces are the rarest: those below wait for them, and nobody waits for a gap."""
    length = lane_length(view.pieces, lane, len(plan.lanes))
    gaps = missing(view.holds[lane], length)
    if not gaps:
        return None
    return _newest(plan, view, lane, *gaps[-1]) if gaps[-1][1] == length else _gap(plan, view, lane, gaps)


def _newest(plan: NodePlan, view: View, lane: int, first: int, length: int) -> Follow:
    peers = _peers(plan.lanes[lane], view, lane)
    if not peers:
        return Follow(lane, STORE, first, length)
    parent, runs = peers[0]
    if parent == plan.lanes[lane][0] and lane not in plan.slower:
        level = _level(runs, first, view.leap, length)
        if level > first:
            return Follow(lane, parent, level, length)
    source, runs = _source(peers, view, lane, first, length)
    return Follow(lane, source, first, _end(runs, first, length))


def _level(runs: Runs, first: int, leap: int, length: int) -> int:
    """Where to go on: with a parent that leapt itself and lacks the piece, where its newest run begins; otherwise
    where the parent is, when that is too far ahead. A node slower than its parent would only fall behind again."""
    if runs and runs[-1][0] > first and not run_at(runs, first):
        return runs[-1][0]
    return frontier(runs) if first + leap < frontier(runs) < length else first


def _gap(plan: NodePlan, view: View, lane: int, gaps: Runs) -> Follow:
    """From any neighbour that has it, of whichever lane: those above in this lane left it out too as a rule. When
    nobody has it yet the one above is waited for, up to the lane's root, which asks the store."""
    lanes = plan.lanes[lane:] + plan.lanes[:lane]
    ranks = (name for rank in zip_longest(*lanes) for name in rank if name is not None)
    peers = _peers(tuple(dict.fromkeys(ranks)), view, lane)
    first, end = _rarest(gaps, peers)
    having = [peer for peer in peers if run_at(peer[1], first)]
    above = having or _peers(plan.lanes[lane], view, lane)
    if not above:
        return Follow(lane, STORE, first, end)
    source, runs = above[0]
    return Follow(lane, source, first, _end(runs, first, end))


def _end(runs: Runs, first: int, end: int) -> int:
    """As far as the source can serve: its newest run grows, an older one does not."""
    run = run_at(runs, first)
    return min(end, run[1]) if run and run != runs[-1] else end


def _peers(sources: tuple[str, ...], view: View, lane: int) -> list[tuple[str, Runs]]:
    """Those that live, without the slow ones if others are left; when there are none the store is asked."""
    living = [each for each in sources if each != STORE and each not in view.gone]
    chosen = [each for each in living if each not in view.slow] or living
    return [(each, view.neighbours[each][lane] if each in view.neighbours else ()) for each in chosen]


def _source(
    peers: list[tuple[str, Runs]], view: View, lane: int, first: int, length: int
) -> tuple[str, Runs]:
    """The first in the plan's order that has the piece, or will have it next.

    One that waits for the piece itself is given up when it is far behind, or when the lane stalls and another is far
    ahead: then the two wait for each other, or something above them is broken.
    """
    having = [peer for peer in peers if run_at(peer[1], first)]
    ahead = any(frontier(runs) > first + view.patience or frontier(runs) == length for _, runs in having)
    lost = ahead and lane in view.stalled
    for peer in peers:
        behind = first - frontier(peer[1])
        if peer in having or (behind >= 0 and not lost and (behind <= view.patience or not having)):
            return peer
    return peers[0]


def _rarest(gaps: Runs, peers: list[tuple[str, Runs]]) -> Run:
    """Among gaps that somebody can fill the one that fewest can, the earlier first."""
    held = [sum(run_at(runs, first) is not None for _, runs in peers) for first, _ in gaps]
    return min(zip(held, gaps, strict=True), key=lambda pair: (pair[0] == 0, pair))[1]


def _is_under_way(follow: Follow, view: View) -> bool:
    now = view.following[follow.lane]
    if now is None or (now.source, now.until) != (follow.source, follow.until):
        return False
    so_far = run_at(view.holds[follow.lane], now.first)
    return follow.first == (so_far[1] if so_far else now.first)
