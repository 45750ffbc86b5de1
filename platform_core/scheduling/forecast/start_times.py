"""Start forecasts: an interval for each waiting job, from rounds of the engine played into the future.

The late bound lets every job run to its limit. The early bound lets each end after the share of its limit that recent
jobs have used; most end far before their limit. Owners reclaim what they lent. Apart from that no job is stopped or
submitted and nothing fails: the forecast is what the cluster as it is now would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import Placement, started
from platform_core.scheduling.engine import decide
from platform_core.scheduling.estimates import expected_end_ms, remaining_ms, with_gpus
from platform_core.scheduling.policy import Policy

_TOGETHER_MS = 30_000
_TOGETHER_PARTS = 20


@dataclass(frozen=True, slots=True)
class Forecast:
    """`late_ms` is None when the start lies beyond the rounds that were played."""

    job_id: str
    early_ms: int
    late_ms: int | None


def forecast(
    snapshot: Snapshot, policy: Policy, *, percent_used: int, most_rounds: int = 100, until: str = ""
) -> tuple[Forecast, ...]:
    """The jobs whose start is in sight, in order of their starts.

    `percent_used`: how much of their limits jobs use, 1 to 100. `until`: stop playing once this job has started.
    """
    late = _starts(snapshot, policy, 100, most_rounds, until)
    early = _starts(snapshot, policy, percent_used, most_rounds, until)
    forecasts = [
        # Earlier ends of others can let another job go first, so that a job starts later in the early play.
        Forecast(job.id, min(at_ms, late.get(job.id, at_ms)), _later(at_ms, late.get(job.id)))
        for job in snapshot.pending
        if (at_ms := early.get(job.id)) is not None
    ]
    return tuple(sorted(forecasts, key=lambda found: (found.early_ms, found.job_id)))


def _later(at_ms: int, late_ms: int | None) -> int | None:
    return None if late_ms is None else max(at_ms, late_ms)


def _starts(snapshot: Snapshot, policy: Policy, percent: int, most_rounds: int, until: str) -> dict[str, int]:
    play = _Play(snapshot, replace(policy, evicts=False, migrates=False, elastic=False), percent)
    for _ in range(most_rounds):
        play.round()
        if until in play.starts or not play.goes_on():
            break
    return play.starts


class _Play:
    def __init__(self, snapshot: Snapshot, policy: Policy, percent: int) -> None:
        self.starts: dict[str, int] = {}
        self._policy, self._percent = policy, percent
        self._from_ms = self._now_ms = snapshot.now_ms
        self._nodes = {node.id: node for node in snapshot.nodes}
        self._reopenings = {end_ms for node in snapshot.nodes for _, end_ms in node.windows}
        self._running = {job.id: self._expected(job) for job in snapshot.running}
        self._pending: Sequence[PendingJob] = snapshot.pending
        self._slots_are_releasing = False
        self._shares = snapshot.teams
        self._used = Counter({(share.team, share.gpu_type): share.used for share in snapshot.teams})

    def round(self) -> None:
        decided = decide(self._snapshot(), self._policy)
        for job, placement in decided.started:
            self.starts.setdefault(job.id, self._now_ms)
            self._start(job, placement)
        stopped = [self._running[stop.job_id] for stop in decided.stops]
        for victim in stopped:
            self._end(victim)
        self._pending = [*decided.waiting, *[victim.asks for victim in stopped if victim.asks is not None]]
        self._slots_are_releasing = bool(stopped)

    def goes_on(self) -> bool:
        """Advance time to the next ends; False when no job waits or nothing ends.

        Ends close together count as one, more so further ahead, so that a hundred rounds reach months into the future.
        """
        ends = [job.expected_end_ms for job in self._running.values() if job.expected_end_ms is not None]
        ends += [end_ms for end_ms in self._reopenings if end_ms > self._now_ms]
        if self._slots_are_releasing:  # lent slots are free once the borrowers have saved
            ends.append(self._now_ms + self._policy.stop_grace_ms)
        ends += [job.not_before_ms for job in self._pending if job.not_before_ms > self._now_ms]
        if not self._pending or not ends:
            return False
        first_ms = min(ends)
        until_ms = first_ms + max(_TOGETHER_MS, (first_ms - self._from_ms) // _TOGETHER_PARTS)
        self._now_ms = max(end_ms for end_ms in ends if end_ms <= until_ms)
        for job in list(self._running.values()):
            if job.expected_end_ms is not None and job.expected_end_ms <= self._now_ms:
                self._end(job)
        return True

    def _snapshot(self) -> Snapshot:
        shares = tuple(replace(share, used=self._used[share.team, share.gpu_type]) for share in self._shares)
        nodes, running = tuple(self._nodes.values()), tuple(self._running.values())
        return Snapshot(self._now_ms, nodes, tuple(self._pending), running, shares)

    def _expected(self, job: RunningJob) -> RunningJob:
        if job.expected_end_ms is None:
            return job
        whole_ms = job.expected_end_ms - job.started_ms
        sooner = replace(job, expected_end_ms=job.started_ms + whole_ms * self._percent // 100)
        return replace(sooner, expected_end_ms=expected_end_ms(sooner, self._now_ms))

    def _start(self, job: PendingJob, placement: Placement) -> None:
        for seat in placement.members:
            node = self._nodes[seat.node]
            self._nodes[node.id] = _with_free(node, set(node.free_slots) - set(seat.slots))
        slots = sum(len(seat.slots) for seat in placement.members)
        runtime_ms = max(1, remaining_ms(with_gpus(job, slots)) * self._percent // 100)
        self._running[job.id] = started(job, placement, self._now_ms, runtime_ms)
        self._used[job.team, job.gpu_type] += slots

    def _end(self, job: RunningJob) -> None:
        del self._running[job.id]
        for node_id, slots in job.placement:
            if node_id in self._nodes:
                node = self._nodes[node_id]
                self._nodes[node_id] = _with_free(node, {*node.free_slots, *slots})
        self._used[job.team, job.gpu_type] -= job.held


def _with_free(node: NodeView, slots: set[int]) -> NodeView:
    return replace(node, free_slots=tuple(sorted(slots)))
