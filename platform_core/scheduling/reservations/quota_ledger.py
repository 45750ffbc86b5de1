"""What each team may still start: no more than its maximum, and nothing that would delay a quota reservation.

A quota reservation works like a node reservation (see `nodes`), for slots without nodes: it starts when enough of the
team's running jobs have ended by their limits. Between two reservations quota only becomes free, so a job may use what
is free now and what every reservation that starts within its run leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import RELEASE_MS, expected_end_ms, remaining_ms

Team = tuple[str, str]  # with the type of its GPUs


@dataclass(slots=True)
class QuotaReservation:
    job_id: str
    gpus: int
    start_ms: int
    end_ms: int
    spare: int  # quota free at the start, beside this reservation and all that overlap it
    of_guarantee: bool = False  # slots that its team is guaranteed are being released for it


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
        self.has_guarantees = any(self._guaranteed.values())
        self._taken: defaultdict[Team, list[tuple[int, int]]] = defaultdict(list)  # (end, GPUs) of this round
        self._reserved: dict[Team, list[QuotaReservation]] = {}
        # Of the guarantee, for the first job that gets released slots.
        self._kept: dict[Team, QuotaReservation] = {}
        # Slots of stopping jobs that do not resume at once.
        self._releasing: defaultdict[Team, int] = defaultdict(int)
        for job in snapshot.running:
            if job.stopping and not _resumes(job):
                self.release(job)

    def held(self, team: str, gpu_type: str) -> int:
        return self._held.get((team, gpu_type), 0)

    def maximum(self, team: str, gpu_type: str) -> int | None:
        """None when the team has no quota for this type and may start nothing."""
        return self._maximum.get((team, gpu_type))

    def has_headroom(self, job: PendingJob) -> bool:
        """True within the maximum, whatever is reserved."""
        team = (job.team, job.gpu_type)
        return self._held.get(team, 0) + job.num_gpus <= self._maximum.get(team, 0)

    def allows(self, job: PendingJob) -> bool:
        """True within the maximum, now and beside all quota reserved for others of its team during its run."""
        team = (job.team, job.gpu_type)
        if self._held.get(team, 0) + job.num_gpus > self._maximum.get(team, 0):
            return False
        if team not in self._reserved and team not in self._kept:
            return True
        return self.blocked_by(job) is None

    def release(self, job: RunningJob) -> None:
        """The job releases its slots within the grace period."""
        self._releasing[job.team, job.gpu_type] += job.held

    def short_of(self, job: PendingJob) -> int:
        """Slots that its team would hold beyond its maximum, with this job and without the stopping ones."""
        team = (job.team, job.gpu_type)
        return self._held.get(team, 0) - self._releasing[team] + job.num_gpus - self._maximum.get(team, 0)

    def will_allow(self, job: PendingJob) -> bool:
        """The same as `allows`, after the stopping jobs have released their slots."""
        return self.short_of(job) <= 0 and self.blocked_by(job) is None

    def blocked_by(self, job: PendingJob) -> QuotaReservation | None:
        """The first reservation that the job would delay if it started now."""
        kept = self._kept.get((job.team, job.gpu_type))
        if kept and kept.job_id != job.id and not self.guarantees(job.team, job.gpu_type, job.num_gpus):
            return kept
        return self._blocking(self.reservations_of(job.team, job.gpu_type), job, self._now_ms)

    def guaranteed(self, team: str, gpu_type: str) -> int:
        return self._guaranteed.get((team, gpu_type), 0)

    def guarantees(self, team: str, gpu_type: str, gpus: int) -> bool:
        """True if the team can hold so many more within its guarantee."""
        return self.held(team, gpu_type) + gpus <= self.guaranteed(team, gpu_type)

    def keep_guarantee(self, job: PendingJob) -> None:
        """Keep the guarantee of its team for the job, which is counted as taken and starts with released slots."""
        start_ms = self._now_ms + RELEASE_MS
        kept = QuotaReservation(
            job.id, job.num_gpus, start_ms, start_ms + remaining_ms(job), 0, of_guarantee=True
        )
        self._kept.setdefault((job.team, job.gpu_type), kept)

    def take(self, job: PendingJob) -> None:
        team, end_ms = (job.team, job.gpu_type), self._now_ms + remaining_ms(job)
        self._held[team] = self.held(*team) + job.num_gpus
        self._taken[team].append((end_ms, job.num_gpus))
        for reservation in self._reserved.get(team, ()):
            if reservation.start_ms < end_ms:
                reservation.spare -= job.num_gpus

    def earliest_ms(self, job: PendingJob, from_ms: int) -> int | None:
        """The first time from `from_ms` at which its whole run is within the maximum, or None."""
        team = (job.team, job.gpu_type)
        maximum = self._maximum.get(team, 0)
        if job.num_gpus > maximum:
            return None
        headroom = maximum - self.held(*team)
        reserved = self._reserved.get(team, ())
        if headroom >= job.num_gpus and not reserved:
            return from_ms
        changes = sorted([*self._changes(team, job), (from_ms, 0)])
        for number, (at_ms, more) in enumerate(changes):
            headroom += more
            last_of_its_time = number + 1 == len(changes) or changes[number + 1][0] > at_ms
            if not last_of_its_time or at_ms < from_ms or headroom < job.num_gpus:
                continue
            if self._blocking(reserved, job, at_ms) is None:
                return at_ms
        return None

    def reserve(self, job: PendingJob, start_ms: int) -> None:
        """Reserve quota for the job from then on, unless it has a reservation."""
        team, end_ms = (job.team, job.gpu_type), start_ms + remaining_ms(job)
        reserved = self._reserved.setdefault(team, [])
        if any(reservation.job_id == job.id for reservation in reserved):
            return
        ended = sum([more for at_ms, more in self._changes(team, job) if at_ms <= start_ms])
        spare = self._maximum[team] - self.held(*team) + ended - job.num_gpus
        for other in reserved:
            if start_ms < other.start_ms < end_ms:
                other.spare -= job.num_gpus
        reserved.append(QuotaReservation(job.id, job.num_gpus, start_ms, end_ms, spare))

    def reservations_of(self, team: str, gpu_type: str) -> Sequence[QuotaReservation]:
        return self._reserved.get((team, gpu_type), ())

    def _blocking(
        self, reserved: Iterable[QuotaReservation], job: PendingJob, from_ms: int
    ) -> QuotaReservation | None:
        until_ms = from_ms + remaining_ms(job)
        for other in reserved:
            if from_ms < other.start_ms < until_ms and other.spare < job.num_gpus and other.job_id != job.id:
                return other
        return None

    def _changes(self, team: Team, job: PendingJob) -> list[tuple[int, int]]:
        """(time, quota that becomes free then), without the reservation of the job itself."""
        changes = [*self._ends.get(team, ()), *self._taken[team]]
        for other in self._reserved.get(team, ()):
            if other.job_id != job.id:
                changes += [(other.start_ms, -other.gpus), (other.end_ms, other.gpus)]
        return changes

    @cached_property
    def _ends(self) -> dict[Team, list[tuple[int, int]]]:
        """(end, GPUs) of the running jobs. Only computed in a round that reserves quota."""
        ends: dict[Team, list[tuple[int, int]]] = {}
        for job in self._snapshot.running:
            end_ms = self._now_ms + RELEASE_MS if job.stopping else expected_end_ms(job, self._now_ms)
            ends.setdefault((job.team, job.gpu_type), []).append((end_ms, job.held))
        return ends


def _resumes(job: RunningJob) -> bool:
    """True if it stops to resume elsewhere or with another size, on a place held for it."""
    return job.asks is not None and bool(job.asks.resize_to or job.asks.reserved_until_ms is not None)
