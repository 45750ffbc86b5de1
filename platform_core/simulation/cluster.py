"""A history: jobs of a trace arrive, the engine decides, time jumps to the next event.

Nothing here decides. Each round builds the same `Snapshot` that production loads and asks the same engine;
this file only does what the world would do: start gangs, end them when their work is done, stop and requeue
those that are evicted, and charge every resume its restart cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot, TeamShare
from platform_core.jobs.spec import Strategy
from platform_core.scheduling.decisions import Placement, Stop, StopKind, started
from platform_core.scheduling.elastic import LEAST_RUN_BEFORE_GROWING_MS
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.estimates import with_gpus
from platform_core.scheduling.lending import LEAST_RUN_BEFORE_RECLAIM_MS
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.policy import Policy
from platform_core.simulation.ledger import Ledger
from platform_core.simulation.workload import Departure, Knowledge, TraceJob, restart_ms

Decider = Callable[[Snapshot, Policy], Decisions]
Watcher = Callable[[int, int, int], None]  # (milliseconds, slots held, jobs waiting)
_PLENTY = 1_000_000_000
_ROUNDS_AT_ONCE = 1_000  # a policy whose evictions never settle is broken: say so instead of spinning


_BACK, _GONE, _NOTICE = -1, -2, -3  # of a node, in place of a job's start; the last first at one moment


@dataclass(slots=True)
class _Life:
    """What is true of a job and not in its snapshot."""

    job: TraceJob
    done_ms: int = 0  # work that survives a stop: the simulated script checkpoints when it is told to stop
    held_gpu_ms: int = 0  # in earlier runs, resumes included
    resize_to: int = 0
    resize_on: tuple[str, ...] = ()
    starts: int = 0
    resume_ms: int = 0  # at the head of the present run, before its work goes on


class Cluster:
    def __init__(
        self,
        nodes: Iterable[NodeView],
        workload: Sequence[TraceJob],
        policy: Policy,
        knowledge: Knowledge = Knowledge.LIMITS,
        decider: Decider = decide,
        shares: Sequence[TeamShare] = (),
        watch: Watcher | None = None,
        departures: Sequence[Departure] = (),
    ) -> None:
        """`shares`: what the teams may hold; without any, each may hold everything. `watch` hears of every round."""
        self._nodes = {node.id: node for node in nodes}
        self._policy, self._knowledge, self._decide = policy, knowledge, decider
        self._lives = {job.id: _Life(job) for job in workload}
        self._pending: dict[str, PendingJob] = {}
        self._running: dict[str, RunningJob] = {}
        self._held = 0
        self._gpu_type = next(iter(self._nodes.values())).gpu_type
        teams = sorted({job.team for job in workload})
        each_may = shares or [TeamShare(team, self._gpu_type, 0, _PLENTY, 0, 1.0, 1.0) for team in teams]
        self._shares = {share.team: replace(share, used=0) for share in each_may}
        self._watch_rounds = watch
        self._next_change = ORDERS[policy.order].next_change_ms
        self._elastic = policy.elastic and any(job.min_gpus for job in workload)
        self.ledger = Ledger(tuple(self._nodes.values()), [job.submit_ms for job in workload])
        self._events = [(job.submit_ms, job.id, 0) for job in workload]  # start number 0: its arrival
        self._events += [(at_ms, each.node, what) for each in departures for what, at_ms in _moments(each)]
        self._notices = {(each.node, each.at_ms): each.notice_ms for each in departures}
        heapq.heapify(self._events)

    def run(self) -> Ledger:
        """The whole history. Raises when a job could never start."""
        ledger = self.play()
        if self._pending:
            stuck = ", ".join(self.never_started[:3])
            raise RuntimeError(f"{len(self._pending)} jobs can never start, the first are {stuck}")
        return ledger

    def play(self) -> Ledger:
        """The same, where some may never start."""
        while self._events:
            now_ms = self._events[0][0]
            self.ledger.advance(now_ms, self._nodes.values(), self._held)
            due = False
            while self._events and self._events[0][0] == now_ms:
                _, job_id, start = heapq.heappop(self._events)
                due |= self._happen(now_ms, job_id, start)
            if due:
                self._settle(now_ms)
                if self._watch_rounds:
                    self._watch_rounds(now_ms, self._held, len(self._pending))
        return self.ledger

    @property
    def never_started(self) -> tuple[str, ...]:
        """Ids of the jobs that still wait at the end of all: nothing that could happen lets them start."""
        return tuple(sorted(self._pending))

    def _happen(self, now_ms: int, job_id: str, start: int) -> bool:
        """One event; False when a later start of the job has made it stale."""
        if start < 0:
            self._node_event(now_ms, job_id, start)
            return True
        life = self._lives[job_id]
        if start == 0:
            self._pending[job_id] = self._waiting(life, now_ms)
            return True
        running = self._running.get(job_id)
        if running is None or life.starts != start:
            return False
        if now_ms >= self._end_ms(running, life):
            self._release(running)
            self.ledger.finished(job_id, life.job, now_ms, running.started_ms)
        else:
            self._watch(running, life, now_ms)
        return True

    def _node_event(self, now_ms: int, node_id: str, what: int) -> None:
        node = self._nodes[node_id]
        if what == _NOTICE:
            self._nodes[node_id] = replace(node, state=NodeState.DRAINING)
            for job in [job for job in self._running.values() if node_id in dict(job.placement)]:
                saved = self._notices[node_id, now_ms] >= restart_ms(job.num_gpus)
                lost_gpu_ms = 0 if saved else (now_ms - job.started_ms) * job.held
                self._stop(Stop(job.id, job.id, StopKind.MOVED, lost_gpu_ms), now_ms, saved=saved)
        else:
            self._nodes[node_id] = replace(
                self._nodes[node_id], state=NodeState.READY if what == _BACK else NodeState.LOST
            )

    def _settle(self, now_ms: int) -> None:
        """Rounds until nothing is evicted any more: the next round seats those for whom room was made."""
        for _ in range(_ROUNDS_AT_ONCE):
            if not self._pending and not self._elastic:
                return
            decided = self._decide(self.snapshot(now_ms), self._policy)
            self.ledger.rounds += 1
            for _, placement in decided.started:
                self._start(placement, now_ms)
            for stop in decided.stops:
                self._stop(stop, now_ms)
            for room in decided.board.rooms:
                whose = self._pending[room.job_id]
                kept = replace(whose, room_on=room.nodes, room_until_ms=room.until_ms)
                self._pending[room.job_id] = kept
            if not decided.stops:
                return
        raise RuntimeError(f"{_ROUNDS_AT_ONCE} rounds at {now_ms} ms and still evicting")

    def snapshot(self, now_ms: int) -> Snapshot:
        nodes, pending = tuple(self._nodes.values()), tuple(self._pending.values())
        return Snapshot(now_ms, nodes, pending, tuple(self._running.values()), tuple(self._shares.values()))

    def _waiting(self, life: _Life, now_ms: int) -> PendingJob:
        job, resume_ms = life.job, restart_ms(life.job.gpus) if life.starts else 0
        known = job.limit_ms if self._knowledge is Knowledge.LIMITS else job.duration_ms
        return PendingJob(
            id=job.id,
            team=job.team,
            user="",
            num_gpus=job.gpus,
            min_gpus=job.min_gpus or job.gpus,
            gpu_type=self._gpu_type,
            priority=job.priority,
            submitted_ms=job.submit_ms,
            excluded_nodes=(),
            preemptible=job.preemptible,
            max_runtime_ms=known,
            waiting_since_ms=now_ms,
            cpus_per_gpu=0,
            memory_per_gpu_bytes=0,
            strategy=Strategy.CUSTOM,
            attained_gpu_ms=life.held_gpu_ms,
            expected_runtime_ms=max(0, known - life.done_ms) + resume_ms,
            resize_to=life.resize_to,
            resize_on=life.resize_on,
        )

    def _start(self, placement: Placement, now_ms: int) -> None:
        waiting, life = self._pending.pop(placement.job_id), self._lives[placement.job_id]
        for seat in placement.members:
            node = self._nodes[seat.node]
            left = tuple(slot for slot in node.free_slots if slot not in seat.slots)
            if len(left) + len(seat.slots) != len(node.free_slots):
                raise RuntimeError(f"{placement.job_id} was given slots of {node.id} that are not free")
            self._nodes[seat.node] = replace(node, free_slots=left)
        life.resume_ms = restart_ms(life.job.gpus) if life.starts else 0
        life.starts += 1
        life.resize_to, life.resize_on = 0, ()
        slots = sum(len(seat.slots) for seat in placement.members)
        runtime_ms = with_gpus(waiting, slots).expected_runtime_ms or 0
        running = replace(started(waiting, placement, now_ms, runtime_ms), saves_when_stopped=True)
        if not waiting.min_gpus <= running.held <= waiting.num_gpus:
            raise RuntimeError(f"{running.id} asked for {life.job.gpus} slots and got {running.held}")
        self._running[running.id] = running
        self._use(running.team, running.held)
        heapq.heappush(self._events, (self._end_ms(running, life), running.id, life.starts))
        self._watch(running, life, now_ms)

    def _end_ms(self, running: RunningJob, life: _Life) -> int:
        left_ms = (life.job.duration_ms - life.done_ms) * life.job.gpus
        return running.started_ms + life.resume_ms - (-left_ms // running.held)

    def _watch(self, running: RunningJob, life: _Life, now_ms: int) -> None:
        """A round when the order of the running job changes by itself or it may grow, unless it ends before."""
        grows_ms = running.started_ms + LEAST_RUN_BEFORE_GROWING_MS
        if self._elastic and running.held < running.num_gpus and grows_ms > now_ms:
            heapq.heappush(self._events, (grows_ms, running.id, life.starts))
        reclaimed_ms = running.started_ms + LEAST_RUN_BEFORE_RECLAIM_MS
        if self._policy.reclaims and reclaimed_ms > now_ms:
            heapq.heappush(self._events, (reclaimed_ms, running.id, life.starts))
        change_ms = self._next_change(running, now_ms) if self._next_change else None
        if change_ms is not None and now_ms < change_ms < self._end_ms(running, life):
            heapq.heappush(self._events, (change_ms, running.id, life.starts))

    def _stop(self, stop: Stop, now_ms: int, *, saved: bool = True) -> None:
        running, life = self._running[stop.job_id], self._lives[stop.job_id]
        self._release(running)
        ran_ms = now_ms - running.started_ms
        life.held_gpu_ms += ran_ms * running.held
        if saved:
            life.done_ms += max(0, ran_ms - life.resume_ms) * running.held // life.job.gpus
        life.resize_to = stop.to_gpus
        life.resize_on = tuple(node for node, _ in running.placement) if stop.to_gpus else ()
        self.ledger.stopped(stop, life.job, ran_ms)
        self._pending[running.id] = self._waiting(life, now_ms)

    def _use(self, team: str, slots: int) -> None:
        self._held += slots
        if team in self._shares:
            share = self._shares[team]
            self._shares[team] = replace(share, used=share.used + slots)

    def _release(self, running: RunningJob) -> None:
        del self._running[running.id]
        self._use(running.team, -running.held)
        for node_id, slots in running.placement:
            node = self._nodes[node_id]
            self._nodes[node_id] = replace(node, free_slots=tuple(sorted((*node.free_slots, *slots))))


def _moments(departure: Departure) -> list[tuple[int, int]]:
    gone_ms = departure.at_ms + departure.notice_ms
    moments = [(_NOTICE, departure.at_ms), (_GONE, gone_ms)]
    return moments if departure.back_ms is None else [*moments, (_BACK, max(gone_ms, departure.back_ms))]
