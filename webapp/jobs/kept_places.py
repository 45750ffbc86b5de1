"""What the gangs that restart keep on their healthy nodes, for the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from django.db.models import F

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Member as MemberValue
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.kept_slots import KEPT_MS, Kept, kept_slots, restarts
from webapp.base.identity import now_ms
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.spares import ready_for

J = TypeVar("J", PendingJob, RunningJob)
_RESTARTS = [end.value for end in EndReason if restarts(end)]


def kept_while_pending(rows: Sequence[Job]) -> dict[str, Kept]:
    """Of waiting jobs whose newest attempt has failed lately."""
    jobs = {row.id: row for row in rows}
    lately = Attempt.objects.filter(
        job__in=jobs, number=F("job__attempt"), ended_ms__gte=now_ms() - KEPT_MS, end__in=_RESTARTS
    )
    ended = {row.id: row for row in lately}
    members, spares = _members(ended), ready_for(row.job_id for row in ended.values())
    return {
        attempt.job_id: kept_slots(
            members[attempt.id], jobs[attempt.job_id].excluded_nodes, attempt.ended_ms or 0,
            jobs[attempt.job_id].not_before_ms, spares.get(attempt.job_id, ()),
        )
        for attempt in ended.values()
    }  # fmt: skip


def kept_while_stopping(rows: Sequence[Job]) -> dict[str, Kept]:
    """Of gangs that stop to restart: the slots of the members that have ended already."""
    jobs = {row.id: row for row in rows}
    newest = Attempt.objects.filter(job__in=jobs, number=F("job__attempt")).exclude(stopping_ms=None)
    stopping = {row.id: row for row in newest}
    members, spares = _members(stopping), ready_for(row.job_id for row in stopping.values())
    return {
        attempt.job_id: kept_slots(
            members[attempt.id], jobs[attempt.job_id].excluded_nodes,
            (attempt.stopping_ms or 0) + jobs[attempt.job_id].stop_grace_ms,
            spares=spares.get(attempt.job_id, ()),
        )
        for attempt in stopping.values()
    }  # fmt: skip


def with_kept_slots(job: J, kept: Kept | None) -> J:
    if kept is None:
        return job
    job = replace(job, kept_slots=kept.slots, kept_until_ms=kept.until_ms)
    if isinstance(job, PendingJob) and kept.with_spares:
        return replace(job, warm_nodes=tuple(node for node, _ in kept.slots))
    return job


def _members(attempts: dict[str, Attempt]) -> dict[str, list[MemberValue]]:
    found: dict[str, list[MemberValue]] = {attempt_id: [] for attempt_id in attempts}
    for row in Member.objects.filter(attempt__in=attempts).order_by("rank") if attempts else ():
        end = EndReason(row.end) if row.end else EndReason.SUCCEEDED
        found[row.attempt_id].append(
            MemberValue(row.node_id, row.rank, tuple(row.slots), MemberPhase(row.phase), end=end)
        )
    return found
