"""The jobs of a history: what happens to them are events, what becomes of them the job machine decides.

As in production: admit, keep the machine's value, carry out its effects. In place of agents stand the scripts.
"""

from __future__ import annotations

from collections.abc import Iterator

from platform_core.checkpointing.restore import Chosen, choose
from platform_core.checkpointing.retention import Kept, to_delete
from platform_core.cluster.invariants import AttemptHolding
from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.jobs import events as ev
from platform_core.jobs.effects import GangEnded, ReleaseSlots, StopMembers
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Member, MemberPhase
from platform_core.jobs.states import TERMINAL, JobState
from platform_core.jobs.transitions import advance, submit
from platform_core.scheduling.decisions import NodeReservation, Placement
from platform_core.scheduling.estimates import remaining_ms, with_gpus
from platform_core.simulation.agenda import Agenda, What
from platform_core.simulation.ledger import Ledger
from platform_core.simulation.nodes import Nodes
from platform_core.simulation.records import Record, as_it_goes_on, as_pending, as_running, spec_of
from platform_core.simulation.starts import Starts
from platform_core.simulation.teams import Teams
from platform_core.simulation.workload import Knowledge, TraceJob

_KILLED = 143
_ATTEMPTS_FOR_NOTHING = 1_000  # one after the other: say so instead of going on for ever


class Jobs:
    def __init__(self, nodes: Nodes, teams: Teams, agenda: Agenda, ledger: Ledger) -> None:
        self.pending: dict[str, PendingJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.refused: list[str] = []
        self.changed: set[str] = set()  # jobs whose members have changed since the books were last looked at
        self._records: dict[str, Record] = {}
        self._on: dict[str, dict[str, None]] = {node: {} for node in nodes.views}
        self._nodes, self._teams, self._agenda, self._ledger = nodes, teams, agenda, ledger
        self._starts = Starts(self.running)

    def record(self, job_id: str, attempt: int) -> Record | None:
        """The record of a job in this attempt; None when the attempt has ended."""
        known = self._records.get(job_id)
        return known if known and known.script and known.job.attempt == attempt else None

    def submit(self, trace: TraceJob, gpu_type: str, knowledge: Knowledge, now_ms: int) -> None:
        if not self._teams.admits(trace.team, gpu_type, trace.gpus):
            self.refused.append(trace.id)
            return
        job = submit(trace.id, spec_of(trace, gpu_type), ev.Submitted(at_ms=now_ms)).job
        self._records[trace.id] = Record(trace, job, knowledge)
        self._queue(self._records[trace.id])

    def place(self, placement: Placement, now_ms: int) -> Record:
        """Start a whole gang; its script begins at once if every node is reachable."""
        record = self._records[placement.job_id]
        waiting = self.pending.pop(placement.job_id)
        self._teams.queue(waiting.team, -waiting.num_gpus)
        slots = sum([len(seat.slots) for seat in placement.members])
        members = tuple([Member(seat.node, seat.rank, seat.slots) for seat in placement.members])
        step_us = record.begin(slots, len(members), self._nodes.racks(each.node for each in members), now_ms)
        self._step(record, ev.Placed(at_ms=now_ms, attempt=record.job.attempt + 1, members=members))
        for member in members:
            self._nodes.take(member.node, member.slots, record.attempt_id, now_ms)
            self._on[member.node][waiting.id] = None
        record.resize_to, record.reserved_nodes, record.reserved_until_ms, record.offered_ms = 0, (), None, 0
        self._teams.use(waiting.team, slots, now_ms)
        runtime_ms = remaining_ms(with_gpus(waiting, slots))
        if record.knowledge is Knowledge.EXACT:
            runtime_ms = runtime_ms * step_us[0] // step_us[1]
        self.running[waiting.id] = as_running(
            record, waiting, now_ms + runtime_ms, self._starts.expected_ms(waiting.id, record.trace.gpus)
        )
        self._begin(record, now_ms)
        self.changed.add(waiting.id)
        return record

    def preempt(
        self, job_id: str, cause: str, now_ms: int, *, resize_to: int = 0, leaves_ms: int | None = None
    ) -> None:
        record = self._records[job_id]
        if record.job.stopping:
            return
        if resize_to:
            self._ledger.resizes += 1
        else:
            self._ledger.preemptions += 1
        record.resize_to = resize_to
        attempt = record.job.attempt
        event = ev.PreemptRequested(at_ms=now_ms, cause=cause, attempt=attempt, leaves_ms=leaves_ms)
        self._step(record, event)
        self._look_again(record)

    def reserve_nodes(self, room: NodeReservation) -> None:
        """Reserve nodes for a job until it starts."""
        record = self._records[room.job_id]
        record.reserved_nodes, record.reserved_until_ms = room.nodes, room.until_ms
        if record.job.id in self.pending:
            self.pending[record.job.id] = as_pending(record)

    def leave_place(self, waiting: PendingJob) -> None:
        record = self._records[waiting.id]
        record.offered_ms, self.pending[waiting.id] = waiting.offered_ms, waiting

    def go_on(self, record: Record, now_ms: int) -> bool:
        """Advance the script to its next event: a save begins or ends, or the work ends. Returns whether it ended."""
        job, script = record.job, record.script
        assert script is not None
        if script.saves_until_ms == now_ms:
            self._saved(record, now_ms)
            script.end_save(now_ms)
            self._look_again(record)
        elif script.is_done(now_ms):
            for member in job.living:
                self._observe(record, member.node, MemberPhase.EXITED, now_ms, code=0)
            return True
        elif script.works_from_ms is not None and script.next_ms <= now_ms:
            script.begin_save(now_ms)
            step = script.done_ms
            self._step(record, ev.CheckpointStarted(at_ms=now_ms, attempt=job.attempt, step=step))
            if script.saves_until_ms == now_ms:
                return self.go_on(record, now_ms)
        self._plan_next(record)
        return False

    def leave(self, record: Record, now_ms: int) -> None:
        """The job has stopped: its members on reachable nodes end."""
        assert record.script is not None
        if record.script.saves_last:
            record.script.saves_last = False
            self._saved(record, now_ms)
            record.script.save_last(now_ms)
        for member in record.job.living:
            if self._nodes.is_up(member.node):
                self._observe(record, member.node, MemberPhase.EXITED, now_ms, _KILLED, EndReason.STOPPED)
        self._look_again(record)

    def on(self, node: str) -> list[Record]:
        return [self._records[job_id] for job_id in self._on[node]]

    def vacate(self, node: str, cause: str, now_ms: int, leaves_ms: int) -> None:
        for record in self.on(node):
            self.preempt(record.job.id, cause, now_ms, leaves_ms=leaves_ms)

    def node_gone(self, node: str, now_ms: int) -> None:
        """The node fails unnoticed: gangs with a member there make no more progress."""
        for record in self.on(node):
            if record.script is not None:
                record.script.hang(now_ms)

    def node_lost(self, node: str, now_ms: int) -> None:
        for record in self.on(node):
            self._step(record, ev.NodeLost(at_ms=now_ms, node=node, cause="silent"))
            self._look_again(record)

    def node_back(self, node: str, now_ms: int) -> None:
        """The node returns: what ran there is lost, what was placed there since begins."""
        for record in self.on(node):
            member = next(each for each in record.job.living if each.node == node)
            if member.phase is not MemberPhase.ASSIGNED or record.job.stopping:
                self._observe(record, node, MemberPhase.EXITED, now_ms, -1, EndReason.LAUNCHER)
                self._look_again(record)
            else:
                self._begin(record, now_ms)

    def holdings(self) -> Iterator[AttemptHolding]:
        """The slots that changed jobs, and other jobs on touched nodes, hold."""
        touched = self._nodes.touched
        for job_id in sorted(self.changed.union(*[self._on[node] for node in touched])):
            record = self._records.get(job_id)
            if record is not None:
                members = tuple([(m.node, m.slots) for m in record.job.living if m.node in touched])
                yield AttemptHolding(record.attempt_id, job_id, members)

    def wrong(self) -> Iterator[str]:
        """Violated invariants: gangs are whole, and no admitted job is lost."""
        for job_id in sorted(self.changed.intersection(self.running)):
            job = self._records[job_id].job
            slots = sum([len(member.slots) for member in job.living])
            if not job.stopping and not job.spec.min_gpus <= slots <= job.spec.num_gpus:
                yield f"{job_id} asked for {job.spec.num_gpus} slots and has {slots}"
        if len(self._records) != len(self.pending) + len(self.running):
            yield f"of {len(self._records)} jobs {len(self.pending)} wait and {len(self.running)} run"

    def _step(self, record: Record, event: ev.JobEvent) -> None:
        """Advance the job by the state machine and carry out the effects."""
        step = advance(record.job, event)
        record.job = step.job
        for effect in step.effects:
            match effect:
                case StopMembers(grace_ms=grace_ms):
                    self._stop(record, grace_ms, event.at_ms)
                case ReleaseSlots(nodes=nodes):
                    self._release(record, nodes, event.at_ms)
                case GangEnded(outcome=outcome):
                    self._gang_ended(record, outcome, event.at_ms)
                case _:
                    pass

    def _observe(
        self,
        record: Record,
        node: str,
        phase: MemberPhase,
        now_ms: int,
        code: int | None = None,
        end: EndReason = EndReason.SCRIPT_ERROR,
    ) -> None:
        attempt = record.job.attempt
        seen = ev.MemberObserved(
            at_ms=now_ms, attempt=attempt, node=node, phase=phase, exit_code=code, end=end
        )
        self._step(record, seen)

    def _begin(self, record: Record, now_ms: int) -> None:
        for member in record.job.living:
            if member.phase is MemberPhase.ASSIGNED and self._nodes.is_up(member.node):
                self._observe(record, member.node, MemberPhase.RUNNING, now_ms)
        script = record.script
        assert script is not None
        if record.job.state is JobState.RUNNING and not script.has_begun and not script.hangs:
            script.begin(now_ms)
            if record.job.attempt > 1:
                placed_ms = self.running[record.job.id].started_ms
                self._starts.took(record.job.id, record.trace.gpus, now_ms - placed_ms + script.resume_ms)
            self._plan_next(record)

    def _plan_next(self, record: Record) -> None:
        script = record.script
        assert script is not None
        next_ms = script.saves_until_ms if script.works_from_ms is None else script.next_ms
        if next_ms is not None:
            self._agenda.add(next_ms, record.job.id, record.job.attempt, What.GOES_ON)

    def _saved(self, record: Record, now_ms: int) -> None:
        assert record.script is not None
        step, attempt = record.script.done_ms, record.job.attempt
        name = f"{record.attempt_id}@{step}"
        self._step(record, ev.CheckpointSaved(at_ms=now_ms, attempt=attempt, step=step, checkpoint=name))
        kept = (*record.checkpoints, Kept(name, attempt, step))
        surplus = to_delete(kept, record.job.spec.checkpoint.keep_last)
        record.checkpoints = tuple([each for each in kept if each.id not in surplus])

    def _stop(self, record: Record, grace_ms: int, now_ms: int) -> None:
        assert record.script is not None
        left_ms = record.script.told_to_stop(now_ms, grace_ms)
        if left_ms > now_ms:
            self._agenda.add(left_ms, record.job.id, record.job.attempt, What.LEAVES)
        else:
            self.leave(record, now_ms)

    def _release(self, record: Record, nodes: tuple[str, ...], now_ms: int) -> None:
        for node in nodes:
            entry = self._nodes.give_back(node, record.attempt_id)
            record.attained_gpu_ms += entry.slots * (now_ms - entry.started_ms)
            del self._on[node][record.job.id]
            self._teams.use(record.trace.team, -entry.slots, now_ms)
        self.changed.add(record.job.id)

    def _gang_ended(self, record: Record, outcome: JobState, now_ms: int) -> None:
        job, script = record.job, record.script
        assert script is not None
        ran_ms = now_ms - self.running.pop(job.id).started_ms
        record.script = None
        if outcome is JobState.SUCCEEDED:
            self._ledger.succeeded(record.trace, now_ms, ran_ms, job.attempt)
            del self._records[job.id]
            return
        lost_gpu_ms = (now_ms - script.kept_from_ms) * script.held
        if outcome in TERMINAL:
            self._ledger.gave_up(record.trace, lost_gpu_ms + script.saved_ms * record.trace.gpus)
            del self._records[job.id]
            return
        self._ledger.stopped(record.trace, ran_ms, lost_gpu_ms, failed=outcome is JobState.PENDING)
        if job.attempt - job.latest_attempt > _ATTEMPTS_FOR_NOTHING:
            raise RuntimeError(
                f"{job.id} was stopped {_ATTEMPTS_FOR_NOTHING} times and has saved nothing meanwhile"
            )
        chosen = choose(record.checkpoints)
        if (chosen.id if isinstance(chosen, Chosen) else "") != job.latest_checkpoint:
            raise RuntimeError(f"{job.id} goes on from {job.latest_checkpoint!r}, but {chosen.reason}")
        record.done_ms = chosen.step if isinstance(chosen, Chosen) else 0
        record.preemptions += outcome is JobState.PREEMPTED
        if job.not_before_ms > now_ms:
            self._agenda.add(job.not_before_ms, job.id, job.attempt, What.RESTARTS)
        self._queue(record)

    def _queue(self, record: Record) -> None:
        self.pending[record.job.id] = as_pending(record)
        self._teams.queue(record.trace.team, record.trace.gpus)

    def _look_again(self, record: Record) -> None:
        """Update what the next round sees of the job, if it still runs."""
        running = self.running.get(record.job.id)
        if running is not None:
            self.running[running.id] = as_it_goes_on(running, record)
