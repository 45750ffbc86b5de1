"""What each team may still start: never more than its maximum, nor what the maximum will have for an earlier one.

A maximum is slots without nodes, and kept as places are (see reservations): from the earliest time at which enough of
the team's running jobs have ended by their limits. Between what is kept quota only becomes free, so what a job may use
is what is there now and beside all that is kept from a time within its run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import LEAVING_MS, expected_end_ms, remaining_ms

Team = tuple[str, str]  # with the type of its GPUs


@dataclass(slots=True)
class KeptQuota:
    job_id: str
    gpus: int
    start_ms: int
    end_ms: int
    beside: int  # what the maximum has at the start for others, with this and all that overlaps it taken


class QuotaLedger:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._now_ms = snapshot, snapshot.now_ms
        self._maximum: dict[Team, int] = {}
        self._guaranteed: dict[Team, int] = {}
        self._held: dict[Team, int] = {}
        for share in snapshot.teams:
            self._maximum[(share.team, share.gpu_type)] = share.maximum
            self._guaranteed[(share.team, share.gpu_type)] = share.guaranteed
            self._held[(share.team, share.gpu_type)] = share.used
        self.promises_anything = any(self._guaranteed.values())
        self._taken: defaultdict[Team, list[tuple[int, int]]] = defaultdict(list)  # (end, GPUs) of this round
        self._kept: dict[Team, list[KeptQuota]] = {}
        self._leaving: defaultdict[Team, int] = defaultdict(
            int
        )  # slots of jobs that stop and do not come back at once
        for job in snapshot.running:
            if job.stopping and not _comes_back(job):
                self.leave(job)

    def held(self, team: str, gpu_type: str) -> int:
        return self._held.get((team, gpu_type), 0)

    def maximum(self, team: str, gpu_type: str) -> int | None:
        """None when nobody gave the team a quota for this type; it may then start nothing."""
        return self._maximum.get((team, gpu_type))

    def has_room(self, job: PendingJob) -> bool:
        """Within the maximum, whoever else waits for what is left."""
        team = (job.team, job.gpu_type)
        return self._held.get(team, 0) + job.num_gpus <= self._maximum.get(team, 0)

    def allows(self, job: PendingJob) -> bool:
        """Within the maximum, now and beside all that is kept for others of its team while it runs."""
        team = (job.team, job.gpu_type)
        if self._held.get(team, 0) + job.num_gpus > self._maximum.get(team, 0):
            return False
        kept = self._kept.get(team)
        return not kept or self._in_the_way(kept, job, self._now_ms) is None

    def leave(self, job: RunningJob) -> None:
        """It gives up its slots within the grace."""
        self._leaving[job.team, job.gpu_type] += job.held

    def short_of(self, job: PendingJob) -> int:
        """Slots that its team would still hold beyond its maximum once those that stop have left."""
        team = (job.team, job.gpu_type)
        return self._held.get(team, 0) - self._leaving[team] + job.num_gpus - self._maximum.get(team, 0)

    def will_allow(self, job: PendingJob) -> bool:
        """The same as `allows`, once those that stop have left."""
        return self.short_of(job) <= 0 and self.kept_from(job) is None

    def kept_from(self, job: PendingJob) -> KeptQuota | None:
        """What is kept for another and would be missing there if this one started now."""
        return self._in_the_way(self.kept_for(job.team, job.gpu_type), job, self._now_ms)

    def guaranteed(self, team: str, gpu_type: str) -> int:
        return self._guaranteed.get((team, gpu_type), 0)

    def guarantees(self, team: str, gpu_type: str, gpus: int) -> bool:
        """Whether so many more are within the team's own."""
        return self.held(team, gpu_type) + gpus <= self.guaranteed(team, gpu_type)

    def take(self, job: PendingJob) -> None:
        team, end_ms = (job.team, job.gpu_type), self._now_ms + remaining_ms(job)
        self._held[team] = self.held(*team) + job.num_gpus
        self._taken[team].append((end_ms, job.num_gpus))
        for kept in self._kept.get(team, ()):
            if kept.start_ms < end_ms:
                kept.beside -= job.num_gpus

    def earliest_ms(self, job: PendingJob, from_ms: int) -> int | None:
        """When, from then on, the maximum has room for its whole run as far as limits tell; None where it never has."""
        team = (job.team, job.gpu_type)
        maximum = self._maximum.get(team, 0)
        if job.num_gpus > maximum:
            return None
        room = maximum - self.held(*team)
        kept = self._kept.get(team, ())
        if room >= job.num_gpus and not kept:
            return from_ms
        changes = sorted([*self._changes(team, job), (from_ms, 0)])
        for number, (at_ms, more) in enumerate(changes):
            room += more
            last_of_its_time = number + 1 == len(changes) or changes[number + 1][0] > at_ms
            if not last_of_its_time or at_ms < from_ms or room < job.num_gpus:
                continue
            if self._in_the_way(kept, job, at_ms) is None:
                return at_ms
        return None

    def keep(self, job: PendingJob, start_ms: int) -> None:
        """From that time on, at which it has room, unless that is kept for it already."""
        team, end_ms = (job.team, job.gpu_type), start_ms + remaining_ms(job)
        kept = self._kept.setdefault(team, [])
        if any(each.job_id == job.id for each in kept):
            return
        ended = sum([more for at_ms, more in self._changes(team, job) if at_ms <= start_ms])
        beside = self._maximum[team] - self.held(*team) + ended - job.num_gpus
        for other in kept:
            if start_ms < other.start_ms < end_ms:
                other.beside -= job.num_gpus
        kept.append(KeptQuota(job.id, job.num_gpus, start_ms, end_ms, beside))

    def kept_for(self, team: str, gpu_type: str) -> Sequence[KeptQuota]:
        return self._kept.get((team, gpu_type), ())

    def _in_the_way(self, kept: Iterable[KeptQuota], job: PendingJob, from_ms: int) -> KeptQuota | None:
        until_ms = from_ms + remaining_ms(job)
        for each in kept:
            if from_ms < each.start_ms < until_ms and each.beside < job.num_gpus and each.job_id != job.id:
                return each
        return None

    def _changes(self, team: Team, job: PendingJob) -> list[tuple[int, int]]:
        """(time, how many more the maximum has from then on), but for what is kept for the job itself."""
        changes = [*self._ends.get(team, ()), *self._taken[team]]
        for kept in self._kept.get(team, ()):
            if kept.job_id != job.id:
                changes += [(kept.start_ms, -kept.gpus), (kept.end_ms, kept.gpus)]
        return changes

    @cached_property
    def _ends(self) -> dict[Team, list[tuple[int, int]]]:
        """Of what runs. Not asked in a round that keeps nothing."""
        ends: dict[Team, list[tuple[int, int]]] = {}
        for job in self._snapshot.running:
            end_ms = self._now_ms + LEAVING_MS if job.stopping else expected_end_ms(job, self._now_ms)
            ends.setdefault((job.team, job.gpu_type), []).append((end_ms, job.held))
        return ends


def _comes_back(job: RunningJob) -> bool:
    """It stops to go on elsewhere or with another size, where its place is kept."""
    return job.asks is not None and bool(job.asks.resize_to or job.asks.room_until_ms is not None)
