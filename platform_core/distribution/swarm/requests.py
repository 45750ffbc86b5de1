"""What a node requests next: a pure function of its plan, the pieces it holds and what it knows of neighbours.

A node does not request single pieces. It follows a source: "send me this lane in order, each piece as soon as you have
verified it". While nothing goes wrong no decision is needed and no message is sent but the pieces. Decisions follow
news: a neighbour gone, back, slow or stalled, a new plan, the end of a run.
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
    """Request pieces `first` to before `until` of the lane from `source`, replacing the lane's earlier request."""

    lane: int
    source: str
    first: int
    until: int


@dataclass(frozen=True, slots=True)
class View:
    """What a node knows. Piece numbers count within the lane; held means verified, and of a neighbour on its disk too.

    `leap`: a node further behind its source than this many pieces continues at the source's position, so that its
    followers are not late too, and fills the gap when the lane is done. Another source must be ahead by as much before
    a stalled lane leaves the planned one. `patience`: how far behind a source may be and still be waited for; several
    times `leap`, because each hop may add one. `neighbours`: those that have reported.
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
    """The new requests; lanes that progress or are complete need none."""
    wanted = (_wanted(plan, view, lane) for lane in range(len(plan.lanes)))
    return tuple(follow for follow in wanted if follow and not _is_under_way(follow, view))


def _wanted(plan: NodePlan, view: View, lane: int) -> Follow | None:
    """The newest pieces are the rarest: nodes below wait for them, and nobody waits for a gap."""
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
    """A root that was away skips what others have pulled meanwhile, or all would wait for it; it fetches those pieces
    from them at the end, or now if everything has been pulled or it has skipped much already.
    """
    peers = _peers(_everybody(plan, lane), view, lane)
    now = view.following[lane]
    if now and first < now.until and any(name == now.source and run_at(runs, first) for name, runs in peers):
        return Follow(lane, now.source, first, now.until)
    pulled = max((frontier(runs) for _, runs in peers), default=0)
    if now and now.source == STORE and pulled <= first + view.leap:
        return None  # they have it from us: what is passed on at once may not be counted here
    if first < pulled < length and len(view.holds[lane]) < _MOST_RUNS:
        return Follow(lane, STORE, pulled, length)
    ends = ((run[1], name) for name, runs in peers if (run := run_at(runs, first)))
    end, source = max(ends, default=(0, STORE))
    return Follow(lane, source, first, end) if end > first else None


def _furthest(plan: NodePlan, view: View, lane: int, first: int) -> tuple[str, Runs]:
    """For a node that lost all known sources of the lane: the other neighbour that holds most of what comes next, else
    the store.
    """
    having = [
        (run[1], peer)
        for peer in _peers(_everybody(plan, lane), view, lane)
        if (run := run_at(peer[1], first))
    ]
    end, peer = max(having, default=(0, (STORE, ())))
    return peer if end > first else (STORE, ())


def _in_turn(plan: NodePlan, view: View, lane: int, first: int) -> list[tuple[str, Runs]]:
    """A working source is left only for the parent, and only when the parent is level; trying others again could create
    a cycle of nodes waiting for each other.
    """
    parent, now = plan.lanes[lane][0], view.following[lane]
    peers = _peers((parent, now.source if now else parent, *plan.lanes[lane]), view, lane)
    works = now is not None and now.source in [name for name, _ in peers]
    if now and works and peers[0][0] != now.source and first - frontier(peers[0][1]) > view.patience:
        return [*peers[1:], peers[0]]
    return peers


def _level(peer: tuple[str, Runs], view: View, lane: int, first: int, length: int) -> int:
    """Where to continue: where the newest run of a parent begins that leapt and lacks the piece; else at the parent's
    position, if that is too far ahead.

    A node that leaps often falls behind again and stays there. A node that has received nothing since it leapt waits
    for a while: leaping again would lose what is on its way.
    """
    (parent, runs), now = peer, view.following[lane]
    leapt = now is not None and now.source == parent and now.first > first
    if now and leapt and lane not in view.stalled and not _left_out(runs, now.first):
        return now.first
    if _left_out(runs, first):
        return runs[-1][0]
    leaps = first + view.leap < frontier(runs) < length and len(view.holds[lane]) < _MOST_RUNS
    return frontier(runs) if leaps else first


def _left_out(runs: Runs, number: int) -> bool:
    """True if a source that leapt lacks just this piece."""
    return frontier(runs) > number and not run_at(runs, number)


def _gap(plan: NodePlan, view: View, lane: int, gaps: Runs) -> Follow:
    """Who fills a gap: the parent; if it lacks the piece too, a neighbour of another lane that has it; else the parent
    if it is about to fill it, as nodes further up would get everyone below as followers.

    If nobody has the piece yet, the node waits for the one above, up to the root of the lane, which requests it from
    the store.
    """
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
    """True if a source that lacks this piece lacks little before it."""
    return first - max((end for _, end in runs if end <= first), default=0) <= view.leap


def _end(runs: Runs, first: int, end: int) -> int:
    """As far as the source can serve: its newest run grows, an older one does not."""
    run = run_at(runs, first)
    return min(end, run[1]) if run and run != runs[-1] else end


def _everybody(plan: NodePlan, lane: int) -> tuple[str, ...]:
    """All neighbours of all lanes, the parents first."""
    ranks = zip_longest(*plan.lanes[lane:], *plan.lanes[:lane])
    return tuple(name for rank in ranks for name in rank if name is not None)


def _peers(sources: tuple[str, ...], view: View, lane: int) -> list[tuple[str, Runs]]:
    """The live neighbours, without slow ones if others are left."""
    living = [each for each in dict.fromkeys(sources) if each != STORE and each not in view.gone]
    chosen = [each for each in living if each not in view.slow] or living
    return [(each, view.neighbours[each][lane] if each in view.neighbours else ()) for each in chosen]


def _source(peers: list[tuple[str, Runs]], view: View, first: int, now: Follow | None) -> tuple[str, Runs]:
    """The first that has the piece or will have it next; one far behind only if nobody has it. The present source may
    be behind by twice as much, so that nodes do not switch back and forth. A neighbour without a report is taken to be
    where the plan puts it.
    """
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
    """A stalled lane: two nodes wait for each other, or something above is broken. It continues from any neighbour far
    ahead; nodes whose parent is gone ask the store if no neighbour has the piece.
    """
    everybody = _peers((*plan.lanes[lane], *_everybody(plan, lane)), view, lane)
    having = [peer for peer in everybody if run_at(peer[1], first)]
    if not having and plan.lanes[lane][0] in view.gone:
        return STORE, ()
    ahead = [p for p in having if frontier(p[1]) > first + view.leap or frontier(p[1]) == length]
    now = view.following[lane]
    return next((p for p in ahead if now and p[0] == now.source), ahead[0] if ahead else None)


def _rarest(gaps: Runs, peers: list[tuple[str, Runs]]) -> Run:
    """Of the gaps that somebody can fill, the one that the fewest can; the earlier first."""
    held = [sum(run_at(runs, first) is not None for _, runs in peers) for first, _ in gaps]
    return min(zip(held, gaps, strict=True), key=lambda pair: (pair[0] == 0, pair))[1]


def _is_under_way(follow: Follow, view: View) -> bool:
    now = view.following[follow.lane]
    if now is None or (now.source, now.until) != (follow.source, follow.until):
        return False
    so_far = run_at(view.holds[follow.lane], now.first)
    return follow.first == (so_far[1] if so_far else now.first)
