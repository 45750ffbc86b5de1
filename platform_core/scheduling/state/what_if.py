"""Stopping running jobs so that something fits: whom, and what the round then counts with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Stop
from platform_core.scheduling.estimates import expected_end_ms, lost_by_stopping_ms, remaining_ms, with_gpus
from platform_core.scheduling.placement.node_index import SlotCounts
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.state.round_state import Board

_TOGETHER = (4, 16, 64, 256)  # how many of the cheapest are looked at


def least_stops(
    cheapest_first: Sequence[RunningJob], fits: Callable[[Sequence[RunningJob]], bool]
) -> list[RunningJob]:
    """Of the cheapest that suffice together, those without which it does not fit: the dearest are spared first."""
    for count in _TOGETHER:
        chosen = list(cheapest_first[:count])
        if chosen and fits(chosen):
            break
        if count >= len(cheapest_first):
            return []
    else:
        return []
    for job in reversed(tuple(chosen)):
        rest = [each for each in chosen if each is not job]
        if fits(rest):
            chosen = rest
    return chosen


def lost_gpu_ms(board: Board, job: RunningJob) -> int:
    return lost_by_stopping_ms(job, board.snapshot.now_ms) * job.held


class Draft:
    """The cluster as it would be if these jobs had stopped, for laying others on it. Changes nothing on the board."""

    def __init__(self, board: Board, stopped: Sequence[RunningJob] = ()) -> None:
        self._placed: list[tuple[Place, int]] = []  # and how long each stays
        self._board, self._stopped = board, stopped
        self._now_ms = board.snapshot.now_ms
        self._counts = board.counts.copy()
        self._besides = [kept.free_beside.copy() for kept in board.reservations.made]
        for position, slots in board.reservations.coming.items():
            self._counts.give(position, slots)
        for job in stopped:
            end_ms = expected_end_ms(job, self._now_ms)
            for position, slots in board.index.seats(job.placement):
                self._counts.give(position, slots)
                for kept, beside in self._kept():
                    if end_ms > kept:
                        beside.give(position, slots)

    def place(self, job: PendingJob, nodes: int = -1) -> Place | None:
        """The best on these nodes that leaves all kept places alone."""
        site, runtime_ms = self._board.site, remaining_ms(job)
        free = self._counts.without(site.closed(self._now_ms, runtime_ms))
        for beside in self._met(runtime_ms):
            free = free.meet(beside)
        return site.place(free, site.demand(job), nodes)

    def lay(self, job: PendingJob) -> bool:
        """Give the job its best place; False where it has none."""
        best, runtime_ms = self._board.index.bits(job.resize_on or job.room_on), remaining_ms(job)
        place = (self.place(job, best) if best else None) or self.place(job)
        if place is None:
            return False
        for position in place.nodes:
            for counts in (self._counts, *self._met(runtime_ms)):
                counts.take(position, place.slots_each)
        self._placed.append((place, runtime_ms))
        return True

    def settle(self, stops: Sequence[Stop] = ()) -> None:
        """Let the round go on as drafted; what nobody was laid on is coming, for others that wait."""
        board, reservations = self._board, self._board.reservations
        reservations.stop(self._stopped)
        for place, _ in self._placed:
            for position in place.nodes:
                new = min(place.slots_each, reservations.coming[position])
                reservations.coming[position] -= new
                board.take(position, place.slots_each - new)
        reservations.made[:] = [
            replace(kept, free_beside=beside)
            for kept, beside in zip(reservations.made, self._besides, strict=True)
        ]
        reservations.use(self._placed)
        if stops:
            board.hopeless.clear()
        board.stops.extend(stops)
        board.stopping.update(stop.job_id for stop in stops)

    def _met(self, runtime_ms: int) -> list[SlotCounts]:
        until_ms = self._now_ms + runtime_ms
        return [beside for start_ms, beside in self._kept() if start_ms < until_ms]

    def _kept(self) -> Iterator[tuple[int, SlotCounts]]:
        made = self._board.reservations.made
        return ((kept.start_ms, beside) for kept, beside in zip(made, self._besides, strict=True))


def expect_the_leaving(board: Board) -> None:
    """Count with what jobs give up that were told to stop in earlier rounds; the resized ones come back first."""
    leaving = [job for job in board.snapshot.running if job.stopping]
    board.reservations.stop(leaving)
    for job in sorted(leaving, key=lambda job: job.id):
        if job.asks is not None and job.asks.resize_to:
            draft = Draft(board)
            if draft.lay(with_gpus(job.asks, job.asks.resize_to)):
                draft.settle()


def has_room(board: Board, job: PendingJob) -> bool:
    """Does it still fit where others were moved away for it, or it moves to, with what is being given up there?"""
    nodes = board.index.bits(job.room_on) if _is_due(board, job) else 0
    return nodes > 0 and Draft(board).place(job, nodes) is not None


def on_the_move(board: Board) -> list[PendingJob]:
    """What jobs will ask for that are saving now, to go on elsewhere: each stands in the queue for its new place."""
    leaving = [
        (job.asks, job.held) for job in board.snapshot.running if job.stopping and job.asks is not None
    ]
    moving = [
        with_gpus(asks, held)
        for asks, held in leaving
        if asks.room_until_ms is not None and not asks.resize_to and _is_due(board, asks)
    ]
    board.moving = {job.id for job in moving}
    return moving


def keep_place(board: Board, job: PendingJob) -> Place | None:
    """Free slots stay free for a job that moves there; None where it does not fit, or a more urgent one went."""
    nodes, runtime_ms = board.index.bits(job.room_on) if job.room_on else -1, remaining_ms(job)
    free = board.reservations.free_through(runtime_ms)
    place = board.site.place(free, board.site.demand(job), nodes)
    if place is not None:
        for position in place.nodes:
            board.take(position, place.slots_each)
        board.reservations.start(place, runtime_ms)
        board.kept_for.append(job)
    return place


def _is_due(board: Board, job: PendingJob) -> bool:
    return job.room_until_ms is None or board.snapshot.now_ms < job.room_until_ms


def promise(board: Board, job: PendingJob) -> bool:
    """Let the job have what others are giving up already, so that nobody else is stopped for it."""
    if not board.reservations.coming.total() or not board.quota.will_allow(job):
        return False
    asked = ("promise", board.site.demand(job), remaining_ms(job))
    draft = Draft(board) if asked not in board.hopeless else None
    if draft is None or not draft.lay(job):
        board.hopeless.add(asked)
        return False
    draft.settle()
    board.promised.add(job.id)
    board.quota.take(job)
    return True
