"""A history: jobs of a trace arrive, nodes fail and return, the engine decides, time jumps to the next event.

Nothing here decides. This is the shell without input and output: each round sweeps the nodes, builds the `Snapshot`
that production loads, asks the same engine, applies what it says as events of the same machines, and has its books
checked. `jobs` and `nodes` carry out the effects; agents and scripts are played by `script`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from platform_core.cluster.health import NodeState
from platform_core.cluster.invariants import check
from platform_core.cluster.snapshot import NodeView, Snapshot, TeamShare
from platform_core.quotas.recent_use import UseBefore
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption.elastic import grows_from_ms
from platform_core.scheduling.preemption.reclaim import LEAST_RUN_BEFORE_RECLAIM_MS
from platform_core.simulation.agenda import Agenda, Event, What
from platform_core.simulation.jobs import Jobs
from platform_core.simulation.ledger import Ledger
from platform_core.simulation.nodes import Nodes
from platform_core.simulation.records import Record
from platform_core.simulation.teams import Teams
from platform_core.simulation.workload import Departure, Knowledge, TraceJob

Decider = Callable[[Snapshot, Policy], Decisions]
Watcher = Callable[[int, int, int], None]  # (milliseconds, slots held, jobs waiting)
_PLENTY = 1_000_000_000
_ROUNDS_AT_ONCE = 1_000  # a policy whose evictions never settle is broken: say so instead of spinning


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
        departures: Iterable[Departure] = (),
        before: UseBefore | None = None,
    ) -> None:
        """`shares`: what the teams may hold; without any, each may hold everything. `watch` hears of every round.

        `before`: what they have used until then; without it, use does not count. `departures` come in order of time,
        and may go on for ever.
        """
        self._nodes = Nodes(nodes)
        self._policy, self._knowledge, self._decide = policy, knowledge, decider
        self._gpu_type = next(iter(self._nodes.views.values())).gpu_type
        self._to_come = {job.id: job for job in workload}
        teams = sorted({job.team for job in workload})
        each_may = shares or [TeamShare(team, self._gpu_type, 0, _PLENTY, 0, 1.0, 1.0) for team in teams]
        self._watch_rounds = watch
        self._next_change = ORDERS[policy.order].next_change_ms
        self._elastic = policy.elastic and any(job.min_gpus for job in workload)
        self.ledger = Ledger(self._nodes.all(), [job.submit_ms for job in workload])
        self._agenda = Agenda()
        for job in workload:
            self._agenda.add(job.submit_ms, job.id, 0, What.ARRIVES)
        self._departures, self._departed = iter(departures), 0
        # By number, from when they are known until the node is back.
        self._expected: dict[int, Departure] = {}
        self._teams = Teams(each_may, before)
        self._jobs = Jobs(self._nodes, self._teams, self._agenda, self.ledger)
        self._expect_a_departure()

    def run(self) -> Ledger:
        """Run to the end. Raises when a job can never start."""
        ledger = self.play()
        if self.never_started:
            stuck = ", ".join(self.never_started[:3])
            raise RuntimeError(f"{len(self.never_started)} jobs can never start, the first are {stuck}")
        return ledger

    def play(self) -> Ledger:
        """Run to the end; some jobs may never start."""
        events = self._agenda.events
        while events and not self._is_over():
            now_ms = events[0].at_ms
            self.ledger.advance(now_ms, self._nodes.views.values(), self._teams.held)
            due = False
            while (event := self._agenda.next_at(now_ms)) is not None:
                due |= self._happen(event)
            if due:
                self._settle(now_ms)
                if self._watch_rounds:
                    self._watch_rounds(now_ms, self._teams.held, len(self._jobs.pending))
        if self._jobs.running:
            stuck = ", ".join(sorted(self._jobs.running)[:3])
            raise RuntimeError(
                f"nothing can happen any more, and {len(self._jobs.running)} jobs still run: {stuck}"
            )
        self._nodes.touched.update(self._nodes.views)
        self._check_the_books(events[0].at_ms if events else self.ledger.now_ms)
        return self.ledger

    @property
    def never_started(self) -> tuple[str, ...]:
        """Ids of the jobs that were refused, and of those that still wait at the end."""
        return tuple(sorted([*self._jobs.refused, *self._jobs.pending]))

    def _is_over(self) -> bool:
        """Nodes may come and go for ever: the run ends when no remaining job could start with all nodes there."""
        if self._to_come or self._jobs.running:
            return False
        if not self._jobs.pending:
            return True
        whole = [replace(node, state=NodeState.READY) for node in self._nodes.all()]
        rested = [replace(job, not_before_ms=0) for job in self._jobs.pending.values()]
        snapshot = self.snapshot(self._agenda.events[0].at_ms)
        snapshot = replace(snapshot, nodes=tuple(whole), pending=tuple(rested))
        return not decide(snapshot, self._policy).started

    def _happen(self, event: Event) -> bool:
        """True if a round is due. Events of earlier attempts are stale."""
        now_ms, whom, number, what = event
        if what is What.ARRIVES:
            job = self._to_come.pop(whom)
            self._jobs.submit(job, self._gpu_type, self._knowledge, now_ms)
            return True
        if what is What.RESTARTS:
            return whom in self._jobs.pending
        if what >= What.NOTICE:
            return self._node_event(event)
        record = self._jobs.record(whom, number)
        if record is None:
            return False
        match what:
            case What.GOES_ON:
                return self._jobs.go_on(record, now_ms)
            case What.LEAVES:
                self._jobs.leave(record, now_ms)
            case _:
                self._watch(record, now_ms)
        return True

    def _expect_a_departure(self) -> None:
        departure = next(self._departures, None)
        if departure is not None:
            self._departed += 1
            self._expected[self._departed] = departure
            what = What.NOTICE if departure.notice_ms else What.GONE
            self._agenda.add(departure.at_ms, departure.node, self._departed, what)

    def _node_event(self, event: Event) -> bool:
        now_ms, node, number, what = event
        departure = self._expected.get(number)
        if departure is None:
            return False  # it is back
        if now_ms == departure.at_ms and what in (What.NOTICE, What.GONE):
            self._expect_a_departure()
            if node in self._nodes.away:  # whoever is away cannot go
                del self._expected[number]
                return False
        match what:
            case What.NOTICE:
                self.ledger.spot_notices += 1
                gone_ms = now_ms + departure.notice_ms
                self._jobs.vacate(node, self._nodes.notice(departure, now_ms), now_ms, gone_ms)
                self._agenda.add(gone_ms, node, number, What.GONE)
            case What.GONE:
                self.ledger.node_failures += not departure.notice_ms
                self._nodes.go(departure, now_ms)
                self._jobs.node_gone(node, now_ms)
                for silent_ms in (self._nodes.limits.suspect_ms, self._nodes.limits.lost_ms):
                    self._agenda.add(now_ms + silent_ms, node, number, What.SWEEP)
                if departure.back_ms is not None:
                    self._agenda.add(max(now_ms, departure.back_ms), node, number, What.BACK)
                return False
            case What.BACK:
                del self._expected[number]
                self._nodes.come_back(node, now_ms)
                self._jobs.node_back(node, now_ms)
            case _:
                pass
        return True

    def _settle(self, now_ms: int) -> None:
        """Repeat rounds until none evicts: the next round starts the jobs for which others were stopped."""
        for node in self._nodes.sweep(now_ms):
            self._jobs.node_lost(node, now_ms)
        for _ in range(_ROUNDS_AT_ONCE):
            if not self._jobs.pending and not self._elastic:
                return
            decided = self._decide(self.snapshot(now_ms), self._policy)
            self.ledger.rounds += 1
            self._apply(decided, now_ms)
            self._check_the_books(now_ms)
            if not decided.stops:
                return
        raise RuntimeError(f"{_ROUNDS_AT_ONCE} rounds at {now_ms} ms and still evicting")

    def _apply(self, decided: Decisions, now_ms: int) -> None:
        for _, placement in decided.started:
            self._watch(self._jobs.place(placement, now_ms), now_ms)
        for job in decided.waiting:
            if job.id in decided.state.left_places:
                self._jobs.leave_place(job)
        for room in decided.state.node_reservations:
            self._jobs.reserve_nodes(room)
        for stop in decided.stops:
            self._jobs.preempt(stop.job_id, f"for {stop.for_job}", now_ms, resize_to=stop.to_gpus)

    def snapshot(self, now_ms: int) -> Snapshot:
        pending, running = tuple(self._jobs.pending.values()), tuple(self._jobs.running.values())
        return Snapshot(now_ms, self._nodes.all(), pending, running, self._teams.shares(now_ms))

    def _watch(self, record: Record, now_ms: int) -> None:
        """Schedule a round for when the job's order changes with time or it may grow, unless it ends before."""
        running, script = self._jobs.running[record.job.id], record.script
        looks_ms: list[int] = []
        if self._elastic and running.held < running.num_gpus:
            looks_ms.append(grows_from_ms(running.started_ms, running.losses_ms))
        if self._policy.reclaims:
            looks_ms.append(running.started_ms + LEAST_RUN_BEFORE_RECLAIM_MS)
        if self._policy.evicts and self._policy.least_run_ms:
            looks_ms.append(running.started_ms + self._policy.least_run_ms)
        change_ms = self._next_change(running, now_ms) if self._next_change else None
        end_ms = script.end_ms if script else None
        if change_ms is not None and (end_ms is None or change_ms < end_ms):
            looks_ms.append(change_ms)
        for look_ms in looks_ms:
            if look_ms > now_ms:
                self._agenda.add(look_ms, running.id, record.job.attempt, What.LOOK)

    def _check_the_books(self, now_ms: int) -> None:
        """Check the invariants that hold after every round, here as in production."""
        wrong = [each.sentence for each in check(self._nodes.books(self._jobs.holdings()))]
        wrong += [*self._jobs.wrong(), *self._teams.wrong()]
        self._nodes.touched.clear()
        self._jobs.changed.clear()
        if wrong:
            raise RuntimeError(f"after the round at {now_ms} ms: {'; '.join(wrong)}")
