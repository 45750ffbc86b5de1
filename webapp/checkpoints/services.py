"""Checkpoints arrive from the agents, and go when the policy of their job says so."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs import events as ev
from platform_core.units import DAY_MS
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints import files, queries, retention, shared_files, turns
from webapp.checkpoints.corruption import go_back
from webapp.checkpoints.deletion import remove
from webapp.checkpoints.models import Checkpoint, SweptJob
from webapp.checkpoints.parts import PartUploaded, forget_halves, register_part
from webapp.checkpoints.registration import Saved, keep
from webapp.checkpoints.restoring import instead
from webapp.events import services as events
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs
from webapp.nodes import queries as clusters

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest

log = logging.getLogger(__name__)

__all__ = [
    "PartUploaded", "go_back", "mark_damaged", "mark_lost", "mark_whole", "pass_over", "register", "register_part",
    "retain", "sweep",
]  # fmt: skip


def register(
    *,
    job_id: str,
    attempt: int,
    step: int,
    manifest_json: str,
    source_url: str,
    etags: Sequence[str] = (),
    metrics: dict[str, Any],
    saved_ms: int,
    actor: str,
) -> Checkpoint:
    """Keeps a checkpoint of format 1 that an agent has verified and uploaded. Announced twice, it is one row."""
    existing = (
        Checkpoint.objects.select_related("manifest").filter(job=job_id, attempt=attempt, step=step).first()
    )
    if existing is not None:
        return existing
    saved = Saved(step, manifest_json, source_url, metrics, saved_ms, etags)
    kept = keep(job_id, attempt, saved, actor)
    kept.delete_stale()
    return kept.checkpoint


def mark_damaged(checkpoint_id: str, *, job_id: str, attempt: int, why: str, actor: str) -> None:
    """A node could not restore it. So nobody begins from it again, and this job goes on from one that is whole."""
    known = Checkpoint.objects.filter(id=checkpoint_id).values_list("manifest_id", flat=True).first()
    if known is None:
        return
    with transaction.atomic():
        jobs.lock(job_id)
        artifacts.lock(known)
        row = Checkpoint.objects.get(id=checkpoint_id)
        # The same bytes under another step or attempt are damaged as well.
        same = Checkpoint.objects.filter(manifest=known, damaged="")
        turns.give(same.values_list("job_id", flat=True))
        same.update(damaged=why)
        event = ev.CheckpointDamaged(
            at_ms=now_ms(), actor=actor, cause=why, attempt=attempt, checkpoint=row.id, step=row.step,
            instead=instead(job_id),
        )  # fmt: skip
        jobs.observe(job_id, event)
        if row.job_id != job_id:
            events.record(
                "CheckpointDamaged", f"job:{row.job_id}", actor=clusters.all_with_hostnames([actor])[0],
                team=row.job.team_id, cause=ev.describe(event),
            )  # fmt: skip


def mark_lost(manifest_id: str, why: str) -> None:
    """The store does not have these bytes any more: nobody begins from their checkpoints, until they are whole."""
    lost = queries.kept().filter(manifest=manifest_id, damaged="")
    if ids := dict(lost.values_list("id", "job_id")):
        turns.give(ids.values())
        lost.update(damaged=why)
        pass_over(ids, why, "system")


def mark_whole(manifest_id: str, whys: Collection[str]) -> None:
    """What the store had lost, as `mark_lost` was told for one of these reasons, is there again."""
    queries.kept().filter(manifest=manifest_id, damaged__in=whys).update(damaged="")


def pass_over(checkpoint_ids: Collection[str], cause: str, actor: str) -> list[str]:
    """Jobs that would begin from one of these go on from one that nobody has recalled. A sentence for each."""
    told = []
    for job, checkpoint in job_queries.beginning_from(checkpoint_ids):
        row = Checkpoint.objects.get(id=checkpoint)
        event = ev.CheckpointDamaged(
            at_ms=now_ms(), actor=actor, cause=cause, attempt=job.attempt, checkpoint=checkpoint, step=row.step,
            instead=instead(job.id),
        )  # fmt: skip
        jobs.observe(job.id, event)
        told.append(f"job {job.name} goes on from another checkpoint than step {row.step:,}")
    return told


def retain(limit: int = 200) -> int:
    """Delete the bytes of checkpoints that their job's policy does not keep. Returns how many.

    Only jobs whose turn it is are looked at, and no manifest is read but of what is deleted.
    """
    round_ = turns.take()
    if not round_.jobs:
        return 0
    needed, by_job = job_queries.needed_checkpoints(), _kept_by_job(round_.jobs)
    deleted = 0
    for job in round_.jobs:
        verdict = retention.verdict(by_job.get(job, []), needed)
        goes = verdict.goes[: limit - deleted]
        for row in goes:
            remove(row)
        deleted += len(goes)
        round_.over(job, verdict.next_ms if goes == verdict.goes else now_ms())
    return deleted


def _kept_by_job(jobs: Iterable[str]) -> dict[str, list[Checkpoint]]:
    rows = queries.with_recalls(queries.kept().filter(job__in=jobs)).select_related("job__retention_rule")
    return {job: list(of) for job, of in groupby(rows.order_by("job_id", "step"), attrgetter("job_id"))}


def discard_moved(manifest: Manifest) -> None:
    """Deletes the files of a checkpoint at the place from which they were moved; those that it shared there stay for
    as long as another checkpoint needs them."""
    place = manifest.moved_from
    artifacts.forget_move(manifest.id, place)
    files.delete(place, manifest)


def sweep(limit: int = 20) -> int:
    """Removes what ended attempts left of checkpoints that never became whole. Returns how many jobs were looked at."""
    ended = job_queries.newest_ended_attempts(now_ms() - DAY_MS)
    swept = dict(SweptJob.objects.filter(job__in=[job for job, _ in ended]).values_list("job_id", "attempt"))
    looked_at = 0
    for job_id, attempt in ended:
        if swept.get(job_id, 0) >= attempt or looked_at >= limit:
            continue
        forget_halves(job_id, attempt)
        try:
            shared_files.sweep(job_id)
        except TrainmasterError as error:
            log.warning("what %s left in the store is not removed yet: %s", job_id, error)
            continue
        SweptJob.objects.update_or_create(job_id=job_id, defaults={"attempt": attempt})
        looked_at += 1
    return looked_at
