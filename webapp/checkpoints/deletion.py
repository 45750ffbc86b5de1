"""Checkpoints leave the store: because a person says so, or because the rule of their job does."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from platform_core.checkpointing.deletion import why_not
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints import files, queries, retention
from webapp.checkpoints.models import Checkpoint
from webapp.events import services as events
from webapp.jobs import queries as jobs
from webapp.sockets import services as sockets


@dataclass(frozen=True, slots=True)
class Deletion:
    """`freed_bytes` leave the store; fewer than the checkpoint has, where another one shares its files."""

    checkpoint: Checkpoint
    freed_bytes: int
    deleted: bool  # False: it was only asked what would happen


def delete(actor: Actor, job_id: str, checkpoint_id: str, *, dry_run: bool = False) -> Deletion:
    """Deletes the files of a checkpoint, whatever the rule of its job says. Deleted twice, it stays deleted.

    Raises not_found, not_allowed, and request_invalid where it is pinned or in use.
    """
    row = queries.find(checkpoint_id)
    if row is None or row.job_id != job_id:
        raise TrainmasterError("not_found", what=f"checkpoint {checkpoint_id} of job {job_id}")
    what = f"checkpoint {row.id} of step {row.step:,}"
    permissions.require(actor, "job.save", row.job.team_id, owner=row.job.user.username, what=what)
    if row.deleted_ms is not None:
        return Deletion(row, 0, True)
    [known] = queries.with_recalls(Checkpoint.objects.filter(id=row.id))
    [kept] = retention.facts([known], jobs.needed_checkpoints())
    if why := why_not(kept):
        raise TrainmasterError("request_invalid", what=what, why=f"it cannot be deleted: {why}")
    same = queries.kept().filter(manifest=row.manifest_id).exclude(id=row.id).exists()
    freed = 0 if same else artifact_queries.freed_by([row.manifest_id])
    if not dry_run and remove(row):
        events.record(
            "CheckpointDeleted", f"job:{job_id}", actor=actor.name, team=row.job.team_id,
            cause=f"step {row.step:,}, {format_bytes(freed)}", data={"name": row.job.name, "checkpoint": row.id},
        )  # fmt: skip
        sockets.publish(f"job:{job_id}")
    return Deletion(row, freed, not dry_run)


def remove(row: Checkpoint) -> bool:
    """The row first: a reader that comes now is told it is gone rather than finding half of it. False: it is pinned, or
    was deleted by somebody else."""
    with transaction.atomic():
        manifest = artifacts.lock(row.manifest_id)
        if not queries.kept().filter(id=row.id, pinned_by="").update(deleted_ms=now_ms()):
            return False
        if Checkpoint.objects.filter(manifest=manifest, deleted_ms=None).exists():
            return True  # the same bytes under another step or attempt
        url = artifacts.vacate(manifest)
    files.delete(url, manifest)
    return True
