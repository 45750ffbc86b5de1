"""Checkpoints arrive from the agents, and go when the policy of their job says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from platform_core.checkpointing.retention import Kept, to_delete
from platform_core.jobs import events
from platform_core.jobs import spec as specification
from platform_core.json_values import storable
from trainmaster.store import open_store
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.checkpoints.models import Checkpoint
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs
from webapp.live.identity import new_id, now_ms

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest


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
    """Keep a checkpoint that an agent has verified and uploaded. Told twice, it is one row."""
    job = job_queries.find(job_id)
    assert job is not None, "an attempt's job exists"
    told = Checkpoint.objects.select_related("manifest").filter(job=job, attempt=attempt, step=step).first()
    if told is not None:
        return told
    with transaction.atomic():
        manifest = artifacts.register_json(manifest_json, job.team_id, source_url, etags)
        metrics = {name: value for name, value in storable(metrics).items() if _is_number(value)}
        row, made = Checkpoint.objects.get_or_create(
            job=job, attempt=attempt, step=step,
            defaults={"id": new_id("ckpt"), "manifest": manifest, "metrics": metrics, "saved_ms": saved_ms},
        )  # fmt: skip
        if made:
            event = events.CheckpointSaved(
                at_ms=now_ms(), actor=actor, attempt=attempt, step=step, checkpoint=row.id
            )
            jobs.observe(job_id, event)
    if manifest.source_url != source_url:  # an earlier attempt saved the very same, which is kept
        _delete_files(source_url, manifest)
    return row


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)  # NaN has become text


def retain(limit: int = 200) -> int:
    """Delete the bytes of checkpoints that their job's policy does not keep. Returns how many."""
    living = (
        Checkpoint.objects.filter(deleted_ms=None)
        .select_related("job", "manifest")
        .order_by("job_id", "step")
    )
    by_job: dict[str, list[Checkpoint]] = {}
    for row in living:
        by_job.setdefault(row.job_id, []).append(row)
    needed = job_queries.needed_checkpoints()
    gone = 0
    for rows in by_job.values():
        for row in _surplus(rows, needed)[: limit - gone]:
            _delete(row)
            gone += 1
    return gone


def _surplus(rows: list[Checkpoint], needed: set[str]) -> list[Checkpoint]:
    """What the job's policy does not keep and nobody else needs: no waiting job, no model version."""
    keep_last = specification.parse(rows[0].job.spec).checkpoint.keep_last
    used = artifact_queries.referenced([row.manifest_id for row in rows], besides="checkpoints.Checkpoint")
    kept = tuple(
        Kept(row.id, row.step, row.saved_ms, row.id in needed or row.manifest_id in used) for row in rows
    )
    surplus = set(to_delete(kept, keep_last))
    return [row for row in rows if row.id in surplus]


def _delete(row: Checkpoint) -> None:
    """The row first: a reader that comes now is told it is gone rather than finding half of it."""
    with transaction.atomic():
        manifest = artifacts.lock(row.manifest_id)
        if not Checkpoint.objects.filter(id=row.id, deleted_ms=None).update(deleted_ms=now_ms()):
            return
        if Checkpoint.objects.filter(manifest=manifest, deleted_ms=None).exists():
            return  # the same bytes under another step or attempt
        url = artifacts.vacate(manifest)
    _delete_files(url, manifest)


def _delete_files(url: str, manifest: Manifest) -> None:
    store = open_store(settings.STORE_URL)
    folder = url.removeprefix(f"{settings.STORE_URL.rstrip('/')}/")
    for entry in manifest.document["files"]:
        store.delete(f"{folder}/{entry['path']}")
