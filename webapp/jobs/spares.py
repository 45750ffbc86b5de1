"""Spare nodes of running gangs, as the scheduler chose them: kept as rows, and told to their nodes."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.jobs.states import TERMINAL, JobState
from platform_core.scheduling.spares import Spare as Chosen
from webapp.base.lease import Fence
from webapp.jobs.models import Job, Member, Spare
from webapp.nodes import services as clusters
from webapp.sockets import services as sockets


def known_spares() -> list[Chosen]:
    rows = Spare.objects.order_by("job_id", "node_id")
    return [Chosen(*row) for row in rows.values_list("job_id", "node_id", "slots", "held")]


def keep_spares(
    chosen: Sequence[Chosen], decided: Collection[str], at_ms: int, fence: Fence = transaction.atomic
) -> None:
    """Keeps the choice for the jobs that were decided on. A gang that restarts has its spares until it is placed."""
    before, after = set(known_spares()), set(chosen)
    ended = Job.objects.filter(id__in={spare.job_id for spare in before}, state__in=list(TERMINAL))
    settled = {*decided, *ended.values_list("id", flat=True)} if before else set(decided)
    gone, new = {spare for spare in before - after if spare.job_id in settled}, after - before
    if not gone and not new:
        return
    with fence():
        kept = {(spare.job_id, spare.node) for spare in new}
        for spare in gone:
            if (spare.job_id, spare.node) not in kept:
                Spare.objects.filter(job=spare.job_id, node=spare.node).delete()
        for spare in sorted(new, key=lambda spare: (spare.job_id, spare.node)):
            columns = {"slots": spare.slots, "held": spare.held}
            if not Spare.objects.filter(job=spare.job_id, node=spare.node).update(**columns):
                Spare.objects.create(job_id=spare.job_id, node_id=spare.node, since_ms=at_ms, **columns)
        clusters.touch(spare.node for spare in gone | new)
        for job_id in {spare.job_id for spare in gone | new}:
            sockets.publish(f"job:{job_id}")


def ready_for(job_ids: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
    """Job id → (node, slots) of its spares."""
    found: dict[str, list[tuple[str, int]]] = {}
    for row in Spare.objects.filter(job__in=list(job_ids)).order_by("node_id"):
        found.setdefault(row.job_id, []).append((row.node_id, row.slots))
    return found


def refresh_spares(job_id: str) -> None:
    """There is another newest checkpoint to have ready."""
    clusters.touch(Spare.objects.filter(job=job_id).values_list("node_id", flat=True))


@dataclass(frozen=True, slots=True)
class SpareWanted:
    """A spare as its node is told: what the gang runs on and goes on from."""

    job_id: str
    team: str
    spec: dict[str, Any]
    checkpoint: str
    gang: tuple[str, ...]


def spares_on(node_ids: Collection[str]) -> dict[str, list[SpareWanted]]:
    found: dict[str, list[SpareWanted]] = {}
    rows = list(Spare.objects.filter(node__in=node_ids).select_related("job").order_by("job_id"))
    for row in rows:
        job = row.job
        members = Member.objects.filter(attempt__job=job, attempt__number=job.attempt).order_by("rank")
        wanted = SpareWanted(
            job.id, job.team_id, job.spec, job.latest_checkpoint or job.spec.get("resume_from", ""),
            tuple(members.values_list("node_id", flat=True)),
        )  # fmt: skip
        found.setdefault(row.node_id, []).append(wanted)
    return found


def of_job(job: Job) -> list[Spare]:
    if JobState(job.state) in TERMINAL:
        return []
    return list(Spare.objects.filter(job=job).select_related("node").order_by("node__hostname"))
