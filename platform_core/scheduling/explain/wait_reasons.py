"""Wait reasons: one sentence for each waiting job, with the numbers that would have to change.

They are computed after the round, from the free capacity at its start and end. Jobs with the same demand share an
answer, so five thousand waiting jobs cost little more than their handful of different demands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.scheduling.decisions import Number, Placement, Stop, Wait, WaitCode
from platform_core.scheduling.estimates import remaining_ms, with_gpus
from platform_core.scheduling.explain.binding import binding
from platform_core.scheduling.explain.holders import Holders
from platform_core.scheduling.explain.left_places import left_place
from platform_core.scheduling.placement.node_index import Demand
from platform_core.scheduling.preemption.reclaim import LEAST_RUN_BEFORE_RECLAIM_MS, reclaimable_later
from platform_core.scheduling.reservations.quota_ledger import QuotaReservation
from platform_core.scheduling.state.round_state import RoundState
from platform_core.scheduling.wording import amount, are, grouped, listed
from platform_core.units import SECOND_MS, format_duration_ms, plural, slot_noun

_Numbers = tuple[tuple[str, Number], ...]
_FOR_SLOTS = (WaitCode.NO_FREE_SLOTS, WaitCode.FRAGMENTED, WaitCode.BEHIND)
_Answer = tuple[WaitCode, _Numbers, str]


class Explainer:
    def __init__(
        self, state: RoundState, started: Sequence[tuple[PendingJob, Placement]], stops: Sequence[Stop] = ()
    ) -> None:
        self._state = state
        self._cluster, self._index, self._quota = state.cluster, state.index, state.quota
        self._at_start, self._at_end = state.at_start, state.counts
        self._holders = Holders(state.index, state.snapshot.running, started)
        self._started = Counter(job.gpu_type for job, _ in started)
        self._lasting: dict[Demand, _Answer | None] = {}
        self._passing: dict[tuple[Demand, int], _Answer] = {}
        self._position: Counter[str] = Counter()
        self._now_ms = state.snapshot.now_ms
        self._stopping = Counter(stop.for_job for stop in stops)
        self._claimants = state.claimants
        self._migrating = {job.gpu_type: job.id for job in state.migrated}
        self._reserved = {reservation.job_id: reservation for reservation in state.reservations.made}

    def wait(self, job: PendingJob, held_back_by: str = "") -> Wait:
        """The wait reason of one job. Call it in queue order: it counts positions."""
        self._position[job.gpu_type] += 1
        pause_ms = job.not_before_ms - self._now_ms
        if pause_ms > 0:
            position = ("position", self._position[job.gpu_type])
            seconds = -(-pause_ms // SECOND_MS)
            sentence = f"restarts in {format_duration_ms(seconds * SECOND_MS)}, after a failure"
            return Wait(job.id, WaitCode.RESTARTS_LATER, (("in_ms", pause_ms), position), sentence)
        code, numbers, sentence = left_place(self._state, job) or self._answer(job, held_back_by)
        numbers = (*numbers, *[("offered_ms", job.offered_ms)][: job.offered_ms])
        if job.id in self._stopping:
            stopping = self._stopping[job.id]
            numbers = (*numbers, ("stopping", stopping))
            sentence = f"{sentence}; {plural(stopping, 'job')} will save and stop for it"
        elif job.id in self._claimants:
            sentence = f"{sentence}; stopping jobs release slots for it"
        elif code in _FOR_SLOTS and (later := self._reclaimable(job)) is not None:
            numbers, sentence = (*numbers, ("reclaim_ms", later[0])), f"{sentence}; {later[1]}"
        reserved = self._reserved.get(job.id)
        if reserved is not None:
            # Not in the sentence: pages show a forecast beside it, and two start times would contradict each other.
            numbers = (*numbers, ("reserved_start_ms", reserved.start_ms))
        place = tuple([self._index.nodes[number].id for number in reserved.place.nodes]) if reserved else ()
        return Wait(job.id, code, (*numbers, ("position", self._position[job.gpu_type])), sentence, place)

    def _reclaimable(self, job: PendingJob) -> tuple[int, str] | None:
        """When borrowers may be stopped for the job, if only their least run prevents it now."""
        least = with_gpus(job, job.min_gpus)
        later = reclaimable_later(self._state, least) if self._quota.allows(least) else None
        if later is None:
            return None
        at_ms, borrowers = later
        hold, its = ("holds", "its") if len(borrowers) == 1 else ("hold", "their")
        who = listed([borrower.id for borrower in borrowers])
        first = format_duration_ms(LEAST_RUN_BEFORE_RECLAIM_MS)
        return at_ms, (
            f"{who} {hold} slots that team {job.team} is guaranteed and may be stopped for it "
            f"in {self._in(at_ms)}, after {its} first {first}"
        )

    def _answer(self, job: PendingJob, held_back_by: str) -> _Answer:
        demand = self._cluster.demand(job)
        if demand not in self._lasting:
            self._lasting[demand] = self._too_large(demand) or self._nodes_away(demand)
        lasting = self._lasting[demand]
        if lasting is not None:
            return lasting
        if not self._quota.allows(job):
            blocking = self._quota.blocked_by(job) if self._quota.has_headroom(job) else None
            if blocking is None:
                return self._over_quota(job)
            if blocking.of_guarantee or job.id not in self._reserved:
                return self._quota_reserved(job, blocking)
        if held_back_by:
            ahead = self._position[job.gpu_type] - 1
            return (
                WaitCode.BEHIND,
                (("ahead", ahead),),
                f"waits its turn: {held_back_by} is first and does not fit yet",
            )
        runtime_ms = remaining_ms(job) if self._cluster.windows else 0
        if (demand, runtime_ms) not in self._passing:
            closed = self._closed(demand, runtime_ms) if self._cluster.windows else None
            self._passing[demand, runtime_ms] = closed or self._no_place(demand)
        return self._passing[demand, runtime_ms]

    def _closed(self, demand: Demand, runtime_ms: int) -> _Answer | None:
        """It would start, if its time limit ended before maintenance begins there."""
        place = self._cluster.place(self._at_end, demand)
        closed = self._cluster.closed(self._now_ms, runtime_ms)
        if place is None or self._cluster.place(self._at_end.without(closed), demand) is not None:
            return None
        nodes = [self._index.nodes[number] for number in place.nodes if closed >> number & 1]
        hosts = listed([node.hostname for node in nodes])
        begin_ms = min(begin for node in nodes for begin, end in node.windows if end > self._now_ms)
        until = format_duration_ms(max(0, begin_ms - self._now_ms))
        sentence = (
            f"needs {amount(demand.gpus, demand.gpu_type)}; maintenance of {hosts} begins in {until}, and "
            f"its time limit is {format_duration_ms(runtime_ms)}: with a shorter limit it could start now"
        )
        numbers: _Numbers = (("needed", demand.gpus), ("begins_ms", begin_ms), ("limit_ms", runtime_ms))
        return WaitCode.MAINTENANCE, numbers, sentence

    def _too_large(self, demand: Demand) -> _Answer | None:
        """Not even all known nodes together could meet the demand, if they were ready and idle."""
        of_type = self._index.of_type(demand.gpu_type)
        if not of_type:
            numbers: _Numbers = (("gpu_type", demand.gpu_type),)
            return (
                WaitCode.GPU_TYPE_MISSING,
                numbers,
                f"no node has {demand.gpu_type}: ask for another type or add one",
            )
        large_enough, eligible = self._index.large_enough(demand), self._index.eligible(demand)
        if self._cluster.empty_place(demand, eligible) is not None:
            return None
        bound = binding(
            self._index,
            demand,
            lambda relaxed: self._cluster.empty_place(relaxed, self._index.eligible(relaxed)),
        )
        if bound is not None:
            numbers = (("needed", demand.gpus), ("condition", bound.condition), ("nodes", bound.nodes))
            needed = f"can never start: needs {amount(demand.gpus, demand.gpu_type)}"
            return WaitCode.CANNOT_EVER_FIT, numbers, f"{needed}; {bound.sentence}"
        most, on_one = self._cluster.capacity.total(eligible), self._cluster.capacity.most_on_one(eligible)
        numbers = (("needed", demand.gpus), ("most", most), ("most_on_one_node", on_one))
        sentence = self._too_large_sentence(demand, of_type, large_enough, most, on_one)
        return WaitCode.CANNOT_EVER_FIT, numbers, sentence

    def _too_large_sentence(
        self, demand: Demand, of_type: int, large_enough: int, most: int, on_one: int
    ) -> str:
        needed = f"needs {amount(demand.gpus, demand.gpu_type)}"
        if not large_enough:
            return self._share_sentence(demand, of_type)
        if on_one < demand.tensor:
            together = amount(demand.tensor, demand.gpu_type)
            return f"can never start: its tensor ranks need {together} on one node; no node has more than {on_one}"
        if most >= demand.gpus and demand.group > 1:
            parts = grouped(demand.tensor, demand.group, on_one)
            return f"can never start: {needed} {parts}; no such split fits nodes of at most {on_one}"
        if most >= demand.gpus:
            return f"can never start: {needed} in equal parts; no equal split fits nodes of at most {on_one}"
        return f"can never start: {needed}; the cluster has {most} at most"

    def _share_sentence(self, demand: Demand, of_type: int) -> str:
        nodes = [node for node in self._index.members(of_type) if node.slots]
        cpus = max(node.cpus // node.slots for node in nodes)
        memory = max(node.memory_bytes // node.slots for node in nodes)
        parts = ((demand.cpus_per_gpu, "CPUs"), (demand.memory_per_gpu_bytes >> 20, "MiB"))
        asked = " and ".join(f"{number} {unit}" for number, unit in parts if number)
        asks = f"can never start: asks {asked} for {amount(1, demand.gpu_type)}"
        return f"{asks}; the nodes have {cpus} CPUs and {memory >> 20} MiB for each at most"

    def _nodes_away(self, demand: Demand) -> _Answer | None:
        """It would fit an idle cluster, but only with nodes that are lost, draining, drained or out of service."""
        eligible = self._index.eligible(demand)
        in_service = eligible & self._cluster.in_service
        if self._cluster.empty_place(demand, in_service) is not None:
            return None
        here = self._cluster.capacity.total(in_service)
        away = list(self._index.members(eligible & ~self._cluster.in_service))
        numbers: _Numbers = (("needed", demand.gpus), ("in_service", here), ("nodes_away", len(away)))
        sentence = (
            f"needs {amount(demand.gpus, demand.gpu_type)}; the nodes in service have {here}; "
            f"{listed([f'{node.hostname} is {_away(node)}' for node in away])}"
        )
        return WaitCode.NODES_DRAINING, numbers, sentence

    def _over_quota(self, job: PendingJob) -> _Answer:
        maximum = self._quota.maximum(job.team, job.gpu_type)
        if maximum is None:
            sentence = f"team {job.team} has no quota for {job.gpu_type}; a lead or an admin can give it one"
            return WaitCode.QUOTA, (("needed", job.num_gpus), ("held", 0), ("maximum", 0)), sentence
        held = self._quota.held(job.team, job.gpu_type)
        numbers: _Numbers = (("needed", job.num_gpus), ("held", held), ("maximum", maximum))
        over = f"would exceed quota: {held + job.num_gpus}/{amount(maximum, job.gpu_type)}"
        if job.num_gpus > maximum:
            return WaitCode.QUOTA, numbers, f"{over}; it can never start under this quota"
        holder = self._holders.largest_of_team(job.team, job.gpu_type)
        held_by = f"{over}; team {job.team} holds {held}{f', {holder}' if holder else ''}"
        reserved = self._quota.reservations_of(job.team, job.gpu_type)
        own = [reservation for reservation in reserved if reservation.job_id == job.id]
        first = next(iter([*own, *reserved]), None)
        if first is None:
            return WaitCode.QUOTA, numbers, held_by
        numbers = (*numbers, ("quota_for", first.job_id), ("quota_ms", first.start_ms))
        whose = "" if first.job_id == job.id else f" for {first.job_id}, which is ahead of it"
        expected = f"by the time limits of running jobs, quota is free in {self._in(first.start_ms)}{whose}"
        return WaitCode.QUOTA, numbers, f"{held_by}; {expected}"

    def _quota_reserved(self, job: PendingJob, blocking: QuotaReservation) -> _Answer:
        """The quota of its team would cover it, but then not a job ahead of it, which would wait longer."""
        team, needed = (job.team, job.gpu_type), f"needs {amount(job.num_gpus, job.gpu_type)}"
        held, maximum, ahead = self._quota.held(*team), self._quota.maximum(*team) or 0, blocking.job_id
        numbers: _Numbers = (
            ("needed", job.num_gpus), ("held", held), ("maximum", maximum),
            ("quota_for", ahead), ("quota_ms", blocking.start_ms),
        )  # fmt: skip
        if blocking.of_guarantee:
            theirs = f"slots are released for {ahead} within the guarantee of team {job.team}"
            return WaitCode.QUOTA, numbers, f"{needed}; {theirs}, which this job would exceed first"
        rest = f"the rest is reserved for {ahead}, expected to start in {self._in(blocking.start_ms)}"
        told = f"team {job.team} holds {held}/{maximum}, and {rest}: only jobs that end before then may start"
        return WaitCode.QUOTA, numbers, f"{needed}; {told}"

    def _no_place(self, demand: Demand) -> _Answer:
        allowed = self._cluster.allowed(demand)
        free = self._at_end.total(allowed)
        with_free = (self._at_end.at_least(1) & allowed).bit_count()
        needed = f"needs {amount(demand.gpus, demand.gpu_type)}"
        numbers: _Numbers = (("needed", demand.gpus), ("free", free), ("free_nodes", with_free))
        if self._reserved and self._cluster.place(self._at_end, demand) is not None:
            return self._reserved_for_others(numbers, needed, free)
        if self._cluster.place(self._at_start, demand) is not None:
            ahead, migrating = self._started[demand.gpu_type], self._migrating.get(demand.gpu_type)
            unit = slot_noun(demand.gpu_type)
            took = [f"{plural(ahead, 'job')} ahead of it took the free {unit} in this round"] if ahead else []
            took += [f"{migrating} migrates to the free {unit}"] if migrating else []
            cause = " and ".join(took) or f"the free {unit} are reserved for other jobs"
            sentence = f"{needed}; {cause}, {are(free, 'left')}"
            return WaitCode.BEHIND, (*numbers, ("ahead", ahead)), sentence
        bound = binding(self._index, demand, lambda relaxed: self._cluster.place(self._at_end, relaxed))
        if bound is not None:
            numbers = (*numbers, ("condition", bound.condition), ("nodes", bound.nodes))
            return WaitCode.CONSTRAINT, numbers, f"{needed}; {bound.sentence}"
        holder = self._holders.largest_on(self._index.eligible(demand), demand.gpu_type)
        held = f"; {holder}" if holder else ""
        if free < demand.gpus:
            where = f"{are(free, 'free')} on {plural(with_free, 'node')}" if free else "none is free"
            sentence = f"{needed}; {where}{self._where_it_failed(demand)}{held}"
            return WaitCode.NO_FREE_SLOTS, numbers, sentence
        on_one = self._at_end.most_on_one(allowed)
        parts = "on one node or in equal parts"
        if demand.group > 1:
            parts = grouped(demand.tensor, demand.group, self._cluster.capacity.most_on_one(allowed))
        spread = f"{free} are free but spread over {with_free} nodes, at most {on_one} on one"
        return (
            WaitCode.FRAGMENTED,
            (*numbers, ("most_on_one_node", on_one)),
            f"{needed} {parts}; {spread}{held}",
        )

    def _where_it_failed(self, demand: Demand) -> str:
        """The free slots on nodes where it failed before, which it may not use."""
        anywhere = self._cluster.allowed(replace(demand, excluded_nodes=()))
        barred = anywhere & ~self._cluster.allowed(demand)
        free = self._at_end.total(barred)
        if not free:
            return ""
        hosts = [node.hostname for node in self._index.members(barred & self._at_end.at_least(1))]
        return f"; {are(free, 'free')} on {listed(hosts)}, where it failed before"

    def _reserved_for_others(self, numbers: _Numbers, needed: str, free: int) -> _Answer:
        first = min(
            self._reserved.values(), key=lambda reservation: (reservation.start_ms, reservation.job_id)
        )
        reserved = f"reserved for {first.job_id}, expected to start in {self._in(first.start_ms)}"
        return (
            WaitCode.BEHIND,
            (*numbers, ("ahead", len(self._reserved))),
            f"{needed}; {are(free, 'free')} but {reserved}",
        )

    def _in(self, at_ms: int) -> str:
        return "a moment" if at_ms - self._now_ms < SECOND_MS else format_duration_ms(at_ms - self._now_ms)


def _away(node: NodeView) -> str:
    return "out of service" if node.out_of_service else node.state.value
