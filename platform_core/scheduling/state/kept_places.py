"""A gang that restarts keeps its place: the slots of its healthy nodes are held, and it goes first for the others.

Slots are held until the gang starts, and no longer than `kept_until_ms`. While another job is tried they count as
taken; when the turn of the gang comes they are free for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import Placement
from platform_core.scheduling.ordering.keys import OrderKey
from platform_core.scheduling.state.round_state import RoundState

Ranked = tuple[OrderKey, PendingJob]
_Held = list[tuple[int, int]]  # (position, slots)


def without_paused(snapshot: Snapshot) -> tuple[Snapshot, list[PendingJob]]:
    """Failed jobs that restart later take no part in the round."""
    paused = [job for job in snapshot.pending if job.not_before_ms > snapshot.now_ms]
    due = [job for job in snapshot.pending if job.not_before_ms <= snapshot.now_ms] if paused else ()
    return replace(snapshot, pending=tuple(due)) if paused else snapshot, paused


class KeptPlaces:
    """The held slots of one round. A gang gets what its nodes have free, and never what a gang before it holds."""

    def __init__(self, state: RoundState, paused: Iterable[PendingJob]) -> None:
        self._state = state
        self._held: dict[str, _Held] = {}
        self._turn: PendingJob | None = None
        gangs: list[PendingJob | RunningJob] = [*state.snapshot.running, *state.snapshot.pending, *paused]
        for job in sorted(gangs, key=lambda job: job.id):
            if self._keeps(job):
                self._hold(job, job.kept_until_ms)

    def put_first(self, ranked: list[Ranked], privileged: int) -> tuple[list[Ranked], int]:
        """The queue with these gangs first, of which only more urgent jobs stay before them, and how many of it are
        privileged now."""
        numbers = [number for number, (_, job) in enumerate(ranked) if job.id in self._held]
        if not numbers:
            return ranked, privileged
        least_urgent = max(ranked[number][1].priority for number in numbers)
        first = [
            entry
            for entry in ranked[: numbers[-1] + 1]
            if entry[1].id in self._held or entry[1].priority < least_urgent
        ]
        first.sort(key=lambda entry: (entry[1].priority, entry[1].id not in self._held))
        ids = {job.id for _, job in first}
        beside = sum(job.id not in ids for _, job in ranked[:privileged])
        return [*first, *[entry for entry in ranked if entry[1].id not in ids]], len(first) + beside

    def next_turn(self, job: PendingJob, started: Sequence[tuple[PendingJob, Placement]]) -> None:
        """What is held for the job is free for it, until its turn ends."""
        self.end_turn(started)
        if job.id in self._held:
            self._turn = job
            self._state.reservations.let_go(job.id)
            for position, slots in self._held.pop(job.id):
                self._state.give_back(position, slots)

    def end_turn(self, started: Sequence[tuple[PendingJob, Placement]]) -> None:
        """Holds the slots again if the job whose turn it was did not start, until the start that is reserved for it."""
        job, self._turn = self._turn, None
        if job is not None and not (started and started[-1][0] is job):
            starts = [made.start_ms for made in self._state.reservations.made if made.job_id == job.id]
            self._hold(job, min([job.kept_until_ms, *starts]))

    def _keeps(self, job: PendingJob | RunningJob) -> bool:
        return bool(job.kept_slots) and self._state.snapshot.now_ms < job.kept_until_ms

    def _hold(self, job: PendingJob | RunningJob, until_ms: int) -> None:
        position_of = self._state.index.position_of
        held: _Held = []
        for node, slots in job.kept_slots:
            position = position_of.get(node)
            free = min(slots, self._state.counts.at(position)) if position is not None else 0
            if position is not None and free:
                self._state.take(position, free)
                held.append((position, free))
        self._held[job.id] = held
        self._state.reservations.hold(job.id, until_ms, held)
