"""Stopping running jobs for waiting ones where it saves more time than it costs.

A job may stop others of a less urgent priority. Of its own priority it may stop those that have run for a
minimum and either have at least twice as much left as itself, or count as equally long and were submitted
much later. Each longer victim is delayed by the newcomer's run, its own restart and the work it would lose; all
these together must be less than the newcomer saves. Victims are chosen for the least GPU time lost. The room
goes to the newcomer in the round after the victims have saved their work.
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.board import Board
from platform_core.scheduling.node_index import Demand, positions
from platform_core.scheduling.ordering.expected_remaining import (
    PRIORITY_STEP,
    Patience,
    expected_of_running_ms,
)
from platform_core.scheduling.ordering.keys import KeyOfJob

TIMES_LONGER = 2.0
LEAST_RUN_MS = 10 * 60_000
RESTART_MS = 60_000


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job that may be stopped, and what that costs."""

    id: str
    priority: int
    left_ms: float
    submitted_ms: int
    delay_ms: int  # restart, and work done again
    slots: int
    seats: tuple[tuple[int, int], ...]  # (position of the node, slots there)
    settled: bool  # only more urgent jobs may stop it


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node can give and who would be stopped for it."""

    lost_gpu_ms: int
    position: int
    victims: tuple[Victim, ...]


class Preemption:
    def __init__(self, board: Board, key: KeyOfJob) -> None:
        self.evicted: list[str] = []
        self._board, self._key = board, key
        self._victims_on: dict[int, list[Victim]] | None = None
        self._best_rank = 0.0  # no job whose rank in the order is higher can stop anybody
        self._failed: dict[tuple[Demand, int], float] = {}  # the shortest run that found nobody to stop

    def is_undeserving(self, job: PendingJob) -> bool:
        return False

    def is_hopeless(self, job: PendingJob) -> bool:
        """Neither this job nor any after it in order can stop anybody."""
        self._victims()
        return self._key(job)[0] > self._best_rank

    def make_room(self, job: PendingJob) -> bool:
        """Choose whom to stop and keep the rest of the place for the job; False when nobody should be."""
        board = self._board
        if self.is_hopeless(job):
            return False
        demand, left_ms = board.site.demand(job), self._key(job)[0] - job.priority * PRIORITY_STEP
        case = (demand, job.priority)
        if left_ms >= self._failed.get(case, left_ms + 1) or not board.in_quota(job):
            return False
        each, offers = self._cheapest(job, demand, left_ms)
        victims = {victim.id: victim for offer in offers for victim in offer.victims}
        if not victims or not _is_worth_it(job, left_ms, list(victims.values())):
            self._failed[case] = left_ms
            return False
        self._stop(list(victims.values()), {offer.position: each for offer in offers})
        return True

    def _cheapest(self, job: PendingJob, demand: Demand, left_ms: float) -> tuple[int, list[Offer]]:
        """Slots on each node and the offers to take, none when too few nodes can give them."""
        board = self._board
        for count in board.site.splits(demand):
            each = demand.gpus // count
            offers = [
                offer
                for position in positions(board.site.allowed(demand))
                if (offer := self._offer(position, each, job, left_ms)) is not None
            ]
            if len(offers) >= count:
                return each, sorted(offers, key=lambda offer: (offer.lost_gpu_ms, offer.position))[:count]
        return 0, []

    def _offer(self, position: int, wanted: int, job: PendingJob, left_ms: float) -> Offer | None:
        free = self._board.counts.at(position)
        chosen: list[Victim] = []
        lost = 0
        for victim in self._victims().get(position, ()):
            if free >= wanted:
                break
            if may_stop(job, left_ms, victim):
                chosen.append(victim)
                lost += victim.delay_ms * victim.slots
                free += next(slots for where, slots in victim.seats if where == position)
        return Offer(lost, position, tuple(chosen)) if free >= wanted else None

    def _stop(self, victims: list[Victim], wanted: dict[int, int]) -> None:
        freed: dict[int, int] = {}
        for victim in victims:
            self.evicted.append(victim.id)
            for position, slots in victim.seats:
                freed[position] = freed.get(position, 0) + slots
                self._victims()[position].remove(victim)
        for position, slots in wanted.items():
            self._board.take(position, max(0, slots - freed.get(position, 0)))

    def _victims(self) -> dict[int, list[Victim]]:
        """By node, the least lost by stopping them first."""
        if self._victims_on is not None:
            return self._victims_on
        snapshot, self._victims_on = self._board.snapshot, {}
        patience = Patience.of(snapshot)
        for job in snapshot.running:
            if not job.preemptible:
                continue
            victim = self._victim(job, snapshot.now_ms, patience)
            if not victim.settled:
                self._best_rank = max(self._best_rank, victim.priority * PRIORITY_STEP + victim.left_ms)
            self._best_rank = max(self._best_rank, victim.priority * PRIORITY_STEP)
            for position, _ in victim.seats:
                self._victims_on.setdefault(position, []).append(victim)
        for victims in self._victims_on.values():
            victims.sort(key=lambda each: (each.delay_ms * each.slots, -each.left_ms, each.id))
        return self._victims_on

    def _victim(self, job: RunningJob, now_ms: int, patience: Patience) -> Victim:
        position_of = self._board.index.position_of
        seats = tuple((position_of[node], len(slots)) for node, slots in job.placement if node in position_of)
        held = sum(len(slots) for _, slots in job.placement)
        ran_ms = now_ms - job.started_ms
        waited_ms = job.started_ms - job.submitted_ms - job.attained_gpu_ms // held
        unsaved_ms = 0 if job.saves_when_stopped else now_ms - (job.last_checkpoint_ms or job.started_ms)
        return Victim(
            id=job.id,
            priority=job.priority,
            left_ms=patience.counted_ms(expected_of_running_ms(job, now_ms, held), waited_ms),
            submitted_ms=job.submitted_ms,
            delay_ms=RESTART_MS + max(0, unsaved_ms),
            slots=held,
            seats=seats,
            settled=ran_ms < LEAST_RUN_MS,
        )


def may_stop(job: PendingJob, left_ms: float, victim: Victim) -> bool:
    if victim.priority != job.priority:
        return victim.priority > job.priority
    if victim.settled:
        return False
    much_longer = victim.left_ms > left_ms and victim.left_ms >= TIMES_LONGER * left_ms
    return much_longer or _is_older(job, left_ms, victim)


def _is_older(job: PendingJob, left_ms: float, victim: Victim) -> bool:
    return left_ms <= victim.left_ms and victim.submitted_ms - job.submitted_ms >= left_ms


def _is_worth_it(job: PendingJob, left_ms: float, victims: list[Victim]) -> bool:
    """Urgency is worth any delay; among equals, the delay of all victims is weighed against the wait saved."""
    equals = [each for each in victims if each.priority == job.priority and not _is_older(job, left_ms, each)]
    if not equals:
        return True
    return sum(left_ms + victim.delay_ms for victim in equals) <= max(each.left_ms for each in equals)
