"""Stopping running jobs for more deserving ones, where the policy allows it.

The order of the policy is laid over running and waiting jobs alike; whoever is within the cluster's capacity
in that order deserves its slots. A waiting job that deserves slots and finds none free gets them from running
jobs that deserve none, the last in order first. It starts in the round after they have stopped.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.jobs.spec import Strategy
from platform_core.scheduling.board import Board
from platform_core.scheduling.node_index import SlotCounts
from platform_core.scheduling.ordering.keys import KeyOfJob
from platform_core.scheduling.placement import Place


class Eviction:
    def __init__(self, board: Board, queue: list[PendingJob], key: KeyOfJob) -> None:
        self.evicted: list[str] = []
        self._board = board
        self._deserving, self._undeserving = _divided(board, queue, key)

    def is_undeserving(self, job: PendingJob) -> bool:
        return job.id not in self._deserving

    def is_hopeless(self, job: PendingJob) -> bool:
        return False

    def make_room(self, job: PendingJob) -> bool:
        """Choose whom to stop and keep the rest of the place for the job; False when that cannot help."""
        board = self._board
        if self.is_undeserving(job) or not board.in_quota(job):
            return False
        place = board.site.place(self._with_victims(), board.site.demand(job))
        if place is None:
            return False
        freed = self._stop_on(place)
        for position in place.nodes:
            board.take(position, max(0, place.slots_each - freed.get(position, 0)))
        board.quota.take(job.team, job.gpu_type, job.num_gpus)
        return True

    def _with_victims(self) -> SlotCounts:
        counts = self._board.counts.copy()
        for victim in self._undeserving:
            for position, slots in _held(self._board, victim):
                counts.give(position, slots)
        return counts

    def _stop_on(self, place: Place) -> dict[int, int]:
        """Stop jobs until each node of the place can give its slots; what that frees on each node."""
        freed: dict[int, int] = {}
        for position in place.nodes:
            missing = place.slots_each - self._board.counts.at(position)
            for victim in reversed(tuple(self._undeserving)):
                if missing <= freed.get(position, 0):
                    break
                held = _held(self._board, victim)
                if any(where == position for where, _ in held):
                    self._undeserving.remove(victim)
                    self.evicted.append(victim.id)
                    for where, slots in held:
                        freed[where] = freed.get(where, 0) + slots
        return freed


def _divided(board: Board, queue: list[PendingJob], key: KeyOfJob) -> tuple[set[str], list[RunningJob]]:
    """Ids of the jobs that deserve slots, and the running jobs that do not, in order."""
    snapshot = board.snapshot
    left: dict[str, int] = {}
    for node in board.index.members(board.site.ready):
        left[node.gpu_type] = left.get(node.gpu_type, 0) + node.slots
    movable: dict[str, RunningJob] = {}
    for job in snapshot.running:
        if job.preemptible:
            movable[job.id] = job
        else:
            left[job.gpu_type] = left.get(job.gpu_type, 0) - job.held
    contenders = [*queue, *(as_if_waiting(job, snapshot.now_ms) for job in movable.values())]
    deserving: set[str] = set()
    undeserving: list[RunningJob] = []
    for contender in sorted(contenders, key=key):
        if contender.num_gpus <= left.get(contender.gpu_type, 0):
            left[contender.gpu_type] -= contender.num_gpus
            deserving.add(contender.id)
        elif contender.id in movable:
            undeserving.append(movable[contender.id])
    return deserving, undeserving


def as_if_waiting(job: RunningJob, now_ms: int) -> PendingJob:
    """The running job as it would stand in the queue if it were stopped now."""
    return PendingJob(
        id=job.id,
        team=job.team,
        user="",
        num_gpus=job.held,
        min_gpus=job.min_gpus,
        gpu_type=job.gpu_type,
        priority=job.priority,
        submitted_ms=job.submitted_ms,
        excluded_nodes=(),
        preemptible=job.preemptible,
        max_runtime_ms=0,
        waiting_since_ms=now_ms,
        cpus_per_gpu=0,
        memory_per_gpu_bytes=0,
        strategy=Strategy.CUSTOM,
        attained_gpu_ms=job.attained_gpu_ms + max(0, now_ms - job.started_ms) * job.held,
        expected_runtime_ms=None if job.expected_end_ms is None else max(0, job.expected_end_ms - now_ms),
    )


def _held(board: Board, job: RunningJob) -> list[tuple[int, int]]:
    position_of = board.index.position_of
    return [(position_of[node], len(slots)) for node, slots in job.placement if node in position_of]
