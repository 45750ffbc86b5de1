"""What a node asks of whom next: a pure function of its plan, what it holds, and what it knows of its neighbours.

A node does not ask for pieces one by one. It follows: "send me this lane in order, each piece as soon as you have
verified it". So while nothing goes wrong no decision is needed at all, and no message but the pieces themselves.
Decisions come with news: a neighbour gone, back, slow or stalled, a new plan, the end of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from platform_core.distribution.planning.forest import STORE, NodePlan, lane_length
from platform_core.distribution.swarm.runs import Run, Runs, frontier, missing, run_at

# A node that is behind its source by more than comes in so long goes on where that one is.
LEAP_SECONDS = 2.0
PATIENCE_LEAPS = 4  # so far behind a source is waited for: each hop may add one
_MOST_RUNS = 6


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
    those who follow it are not late as well, and fills the gap when the lane is done. By so much another must be ahead
    before a lane that stalls leaves the source that the plan prefers. `patience`: how far a source may be behind and
    still be waited for; several times `leap`, because each hop may add one. `neighbours`: those that have told.
    """

    pieces: int
    holds: tuple[Runs, ...]  # by lane
    neighbours: Mapping[str, tuple[Runs, ...]]
    following: tuple[Follow | None, ...]
    leap: int
    patience: int
    gone: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()  # they hardly send: asked only where nobody else is left
    stalled: frozenset[int] = frozenset()  # lanes in which nothing came for too long


def next_actions(plan: NodePlan, view: View) -> tuple[Follow, ...]:
    """What to ask anew; lanes that go well, or are complete, are left alone."""
    wanted = (_wanted(plan, view, lane) for lane in range(len(plan.lanes)))
    return tuple(follow for follow in wanted if follow and not _is_under_way(follow, view))


def _wanted(plan: NodePlan, view: View, lane: int) -> Follow | None:
    """The newest pieces are the rarest: those below wait for them, and nobody waits for a gap."""
    length = lane_length(view.pieces, lane, len(plan.lanes))
    gaps = missing(view.holds[lane], length)
    if not gaps:
        return None
    return _newest(plan, view, lane, *gaps[-1]) if gaps[-1][1] == length else _gap(plan, view, lane, gaps)


def _newest(plan: NodePlan, view: View, lane: int, first: int, length: int) -> Follow | None:
    parent, now = plan.lanes[lane][0], view.following[lane]
    peers = _in_turn(plan, view, lane, first)
    if peers and peers[0][0] == parent:
        level = first if lane in plan.slower else _level(peers[0], view, lane, first, length)
        if level > first:
            return Follow(lane, parent, level, length)
    elif parent == STORE or (len(plan.lanes[lane]) <= 2 and parent in view.gone):  # a root, or its heir
        return _catch_up(plan, view, lane, first, length) or Follow(lane, STORE, first, length)
    elif now and now.source == STORE:
        return Follow(lane, STORE, first, length)
    elif not peers:
        # Whoever loses all at once has rather lost its own link for a moment.
        if view.holds[lane] and lane not in view.stalled:
            return None
        # One that stalls chooses as it will when it follows whom it chose, or it would ask twice.
        out = _way_out(plan, view, lane, first, length) if lane in view.stalled else None
        source, runs = out or _furthest(plan, view, lane, first)
        return Follow(lane, source, first, _end(runs, first, length))
    # Nobody leaves a parent only because nothing has come so far down yet.
    stalls = lane in view.stalled and (view.holds[lane] or parent in view.gone)
    left = parent in view.slow and parent not in view.gone
    way_out = _way_out(plan, view, lane, first, length) if stalls or left else None
    source, runs = way_out or _source(peers, view, first, now)
    return Follow(lane, source, first, _end(runs, first, length))


def _catch_up(plan: NodePlan, view: View, lane: int, first: int, length: int) -> Follow | None:
    """A root that was away leaves out what others have pulled meanwhile, or all would wait until it has that too; and
    fetches it from them at the end, or now where all has been pulled or it has left out much already."""
    peers = _peers(_everybody(plan, lane), view, lane)
    now = view.following[lane]
    if now and first < now.until and any(name == now.source and run_at(runs, first) for name, runs in peers):
        return Follow(lane, now.source, first, now.until)
    pulled = max((frontier(runs) for _, runs in peers), default=0)
    if now and now.source == STORE and pulled <= first + view.leap:
        return None  # they have it from us: what is passed on at once may not be written here
    if first < pulled < length and len(view.holds[lane]) < _MOST_RUNS:
        return Follow(lane, STORE, pulled, length)
    ends = ((run[1], name) for name, runs in peers if (run := run_at(runs, first)))
    end, source = max(ends, default=(0, STORE))
    return Follow(lane, source, first, end) if end > first else None


def _furthest(plan: NodePlan, view: View, lane: int, first: int) -> tuple[str, Runs]:
    """For one that has lost all whom it knew in the lane: of its other neighbours the one with most of what comes
    next; else the store."""
    having = [
        (run[1], peer)
        for peer in _peers(_everybody(plan, lane), view, lane)
        if (run := run_at(peer[1], first))
    ]
    end, peer = max(having, default=(0, (STORE, ())))
    return peer if end > first else (STORE, ())


def _in_turn(plan: NodePlan, view: View, lane: int, first: int) -> list[tuple[str, Runs]]:
    """What works is left for the parent only, and only when that is level, not just back without what has come since;
    to try the others again could mean to wait for one who waits for us."""
    parent, now = plan.lanes[lane][0], view.following[lane]
    peers = _peers((parent, now.source if now else parent, *plan.lanes[lane]), view, lane)
    works = now is not None and now.source in [name for name, _ in peers]
    if now and works and peers[0][0] != now.source and first - frontier(peers[0][1]) > view.patience:
        return [*peers[1:], peers[0]]
    return peers


def _level(peer: tuple[str, Runs], view: View, lane: int, first: int, length: int) -> int:
    """Where to go on: with a parent that leapt itself and lacks the piece, where its newest run begins; otherwise
    where the parent is, when that is too far ahead. One that leaps often only falls behind again, and stays so. One to
    whom nothing has come since it leapt waits for a while: to leap again would be to lose what is on its way."""
    (parent, runs), now = peer, view.following[lane]
    leapt = now is not None and now.source == parent and now.first > first
    if now and leapt and lane not in view.stalled and not _left_out(runs, now.first):
        return now.first
    if _left_out(runs, first):
        return runs[-1][0]
    leaps = first + view.leap < frontier(runs) < length and len(view.holds[lane]) < _MOST_RUNS
    return frontier(runs) if leaps else first


def _left_out(runs: Runs, number: int) -> bool:
    """Whether a source that leapt lacks just this one."""
    return frontier(runs) > number and not run_at(runs, number)


def _gap(plan: NodePlan, view: View, lane: int, gaps: Runs) -> Follow:
    """From the parent; where it left it out as well, from a neighbour of another lane that has it, and else from the
    parent all the same if it is about to fill it: those further up would get all who are below them as followers. What
    stalls comes from them, and goes on there. When nobody has it yet the one above is waited for, up to the lane's
    root, which asks the store."""
    peers, now = _peers(_everybody(plan, lane), view, lane), view.following[lane]
    parent, *further_up = plan.lanes[lane]
    first, end = _rarest(gaps, peers)
    having = [peer for peer in peers if run_at(peer[1], first)]
    near = [peer for peer in having if peer[0] not in further_up]
    if not near and peers and peers[0][0] == parent and _is_next(peers[0][1], view, first):
        goes_on = any(now and name == now.source for name, _ in having)
        if lane not in view.stalled and not goes_on:
            return Follow(lane, parent, first, end)
    above = near or having or _peers(plan.lanes[lane], view, lane)
    if not above or (not having and lane in view.stalled and parent in view.gone):
        return Follow(lane, STORE, first, end)
    source, runs = above[0]
    return Follow(lane, source, first, end if source == parent else _end(runs, first, end))


def _is_next(runs: Runs, view: View, first: int) -> bool:
    """Whether a source that lacks this piece lacks little before it."""
    return first - max((end for _, end in runs if end <= first), default=0) <= view.leap


def _end(runs: Runs, first: int, end: int) -> int:
    """As far as the source can serve: its newest run grows, an older one does not."""
    run = run_at(runs, first)
    return min(end, run[1]) if run and run != runs[-1] else end


def _everybody(plan: NodePlan, lane: int) -> tuple[str, ...]:
    """All neighbours, whatever the lane they are told for; the parents first."""
    ranks = zip_longest(*plan.lanes[lane:], *plan.lanes[:lane])
    return tuple(name for rank in ranks for name in rank if name is not None)


def _peers(sources: tuple[str, ...], view: View, lane: int) -> list[tuple[str, Runs]]:
    """Those that live, without the slow ones if others are left."""
    living = [each for each in dict.fromkeys(sources) if each != STORE and each not in view.gone]
    chosen = [each for each in living if each not in view.slow] or living
    return [(each, view.neighbours[each][lane] if each in view.neighbours else ()) for each in chosen]


def _source(peers: list[tuple[str, Runs]], view: View, first: int, now: Follow | None) -> tuple[str, Runs]:
    """The first that has the piece, or will have it next; one far behind only when nobody has it. Whom we follow may
    be behind by twice as much, or we would go to and fro. Who has told nothing yet is where the plan has it."""
    if peers[0][0] not in view.neighbours:
        return peers[0]
    having = [peer for peer in peers if run_at(peer[1], first)]
    for peer in peers:
        behind = first - frontier(peer[1])
        patience = view.patience * (2 if now and now.source == peer[0] else 1)
        if peer in having or (behind >= 0 and (behind <= patience or not having)):
            return peer
    return peers[0]


def _way_out(plan: NodePlan, view: View, lane: int, first: int, length: int) -> tuple[str, Runs] | None:
    """In a lane that stalls two wait for each other, or something above is broken; and where the parent hardly sends,
    others in the lane may be as late. Then from any neighbour that is far ahead. The store is asked by those whose
    parent is gone, when nobody they know has the piece."""
    everybody = _peers((*plan.lanes[lane], *_everybody(plan, lane)), view, lane)
    having = [peer for peer in everybody if run_at(peer[1], first)]
    if not having and plan.lanes[lane][0] in view.gone:
        return STORE, ()
    ahead = [p for p in having if frontier(p[1]) > first + view.leap or frontier(p[1]) == length]
    now = view.following[lane]
    return next((p for p in ahead if now and p[0] == now.source), ahead[0] if ahead else None)


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
