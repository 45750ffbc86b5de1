"""What a node asks of whom next: a pure function of its plan, what it holds, and what it knows of its neighbours.

A node does not ask for pieces one by one. It follows: "send me this lane in order, each piece as soon as you have
verified it". So while nothing goes wrong no decision is needed at all, and no message but the pieces themselves.
Decisions come with news: a neighbour gone, back, slow or stalled, a new plan, the end of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

    `leap`: a node that is further behind its neighbours than so many pieces of a lane goes on where they are, so
    that those who follow it are not late as well, and fills the gap when the lane is done. `patience`: another
    neighbour must be ahead by more than this before a stalled lane leaves the source that the plan prefers.
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
    length = lane_length(view.pieces, lane, len(plan.lanes))
    gaps = missing(view.holds[lane], length)
    if not gaps:
        return None
    sources = _usable(plan.lanes[lane], view)
    # The newest pieces are the rarest: those below wait for them, and nobody waits for a gap.
    gap = gaps[-1] if gaps[-1][1] == length else _rarest(gaps, sources, view, lane)
    first = gap[0]
    source = _source(sources, view, lane, first)
    if source == STORE:
        return Follow(lane, STORE, first, gap[1])
    runs = view.neighbours.get(source, ((),) * len(plan.lanes))[lane]
    if gap[1] == length and frontier(runs) - first > view.leap and frontier(runs) < length:
        first = frontier(runs)
    run = run_at(runs, first)
    ends = run is not None and run != runs[-1]  # the newest run grows, an older one does not
    return Follow(lane, source, first, min(gap[1], run[1]) if run and ends else gap[1])


def _usable(sources: tuple[str, ...], view: View) -> tuple[str, ...]:
    """Those that live, without the slow ones if others are left; the store only when there is no neighbour."""
    living = tuple(each for each in sources if each != STORE and each not in view.gone)
    return tuple(each for each in living if each not in view.slow) or living or (STORE,)


def _source(sources: tuple[str, ...], view: View, lane: int, first: int) -> str:
    """The first in the plan's order that has the piece, or will have it next.

    One that waits for the piece itself is given up when the lane stalls and another is far ahead: then the two wait
    for each other, or something above them is broken.
    """
    empty: tuple[Runs, ...] = ((),) * (lane + 1)
    peers = [(source, view.neighbours.get(source, empty)[lane]) for source in sources if source != STORE]
    having = [(source, runs) for source, runs in peers if run_at(runs, first)]
    lost = lane in view.stalled and any(frontier(runs) - first > view.patience for _, runs in having)
    for source, runs in peers:
        if (source, runs) in having or (frontier(runs) <= first and not lost):
            return source
    return sources[0]


def _rarest(gaps: Runs, sources: tuple[str, ...], view: View, lane: int) -> Run:
    """Among gaps that somebody can fill the one that fewest can, the earlier first."""
    held = [
        sum(run_at(view.neighbours[source][lane], gap[0]) is not None for source in sources if source != STORE
            and source in view.neighbours)
        for gap in gaps
    ]  # fmt: skip
    return min(zip(held, gaps, strict=True), key=lambda pair: (pair[0] == 0, pair))[1]


def _is_under_way(follow: Follow, view: View) -> bool:
    now = view.following[follow.lane]
    if now is None or (now.source, now.until) != (follow.source, follow.until):
        return False
    so_far = run_at(view.holds[follow.lane], now.first)
    return follow.first == (so_far[1] if so_far else now.first)
