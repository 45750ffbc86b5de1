"""Spare nodes of running gangs: where a gang goes on when it loses a node, with its data and checkpoint there already.

A spare is held, so that no other job gets its slots, while the team has guaranteed slots that it does not use, and no
more urgent job waits for the type. Otherwise its slots are free for all: only the files are kept ready. A held spare
counts neither as used nor against the maximum of the team, and it costs nothing until the gang moves there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot
from platform_core.scheduling.placement.node_index import Demand, NodeIndex


@dataclass(frozen=True, slots=True)
class Wish:
    """`like` is what the running job would ask for if it waited."""

    count: int
    like: PendingJob


@dataclass(frozen=True, slots=True)
class Spare:
    job_id: str
    node: str
    slots: int
    held: bool


def choose(snapshot: Snapshot, wishes: Mapping[str, Wish], before: Sequence[Spare]) -> tuple[Spare, ...]:
    """The spares of the running jobs with a wish, the most urgent job's first. A node that is chosen stays."""
    round_ = _Round(snapshot, before)
    jobs = [job for job in snapshot.running if job.id in wishes and not job.stopping]
    spares: list[Spare] = []
    for job in sorted(jobs, key=lambda job: (job.priority, job.id)):
        spares += round_.spares_of(job, wishes[job.id])
    return tuple(spares)


def hold(snapshot: Snapshot, spares: Sequence[Spare]) -> Snapshot:
    """The snapshot in which running jobs keep the slots of their held spares."""
    held: dict[str, list[tuple[str, int]]] = {}
    for spare in spares:
        if spare.held:
            held.setdefault(spare.job_id, []).append((spare.node, spare.slots))
    if not held:
        return snapshot
    running = tuple(
        replace(job, kept_slots=tuple(held[job.id]), kept_until_ms=_end_ms(job, snapshot.now_ms))
        if job.id in held
        else job
        for job in snapshot.running
    )
    return replace(snapshot, running=running)


def _end_ms(job: RunningJob, now_ms: int) -> int:
    return max(now_ms + 1, job.expected_end_ms or 0)


class _Round:
    def __init__(self, snapshot: Snapshot, before: Sequence[Spare]) -> None:
        self._index = NodeIndex(snapshot.nodes)
        self._free = {node.id: len(node.free_slots) for node in snapshot.nodes}
        self._guaranteed = {
            (share.team, share.gpu_type): share.guaranteed - share.used for share in snapshot.teams
        }
        self._most_urgent: dict[str, int] = {}
        for job in snapshot.pending:
            self._most_urgent[job.gpu_type] = min(
                job.priority, self._most_urgent.get(job.gpu_type, job.priority)
            )
        self._before = {(spare.job_id, spare.node) for spare in before}

    def spares_of(self, job: RunningJob, wish: Wish) -> list[Spare]:
        slots = max((len(indices) for _, indices in job.placement), default=0)
        ran_on = {node for node, _ in job.placement}
        eligible = self._index.eligible(Demand.of(wish.like))
        nodes = [
            node
            for node in self._index.members(eligible)
            if node.takes_work and not node.windows and node.id not in ran_on and slots <= self._free[node.id]
        ]
        near = {(node.block, node.rack) for node in self._index.members(self._index.bits(ran_on))}
        nodes.sort(key=lambda node: self._preference(job, node, near))
        return [self._spare(job, node, slots) for node in nodes[: wish.count]] if slots else []

    def _preference(
        self, job: RunningJob, node: NodeView, near: set[tuple[str, str]]
    ) -> tuple[bool, bool, int, str]:
        """One that was chosen before, of a rack of the gang, with the fewest free slots."""
        chosen = (job.id, node.id) in self._before
        return not chosen, (node.block, node.rack) not in near, self._free[node.id], node.id

    def _spare(self, job: RunningJob, node: NodeView, slots: int) -> Spare:
        key = (job.team, job.gpu_type)
        urgent = self._most_urgent.get(job.gpu_type, job.priority) < job.priority
        held = not urgent and slots <= self._guaranteed.get(key, 0)
        if held:
            self._guaranteed[key] -= slots
            self._free[node.id] -= slots
        return Spare(job.id, node.id, slots, held)
