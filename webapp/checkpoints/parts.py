"""Parts of checkpoints arrive from the nodes of a gang; with the last one the checkpoint exists."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.checkpointing import parts
from platform_core.checkpointing.parts import Incomplete, Merged, Part
from platform_core.distribution.content.manifest import (
    as_document,
    from_document,
    from_json,
    to_json,
)
from trainmaster.store import open_store
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints import shared_files
from webapp.checkpoints.models import Checkpoint, CheckpointPart
from webapp.checkpoints.registration import Saved, keep, numbers


@dataclass(frozen=True, slots=True)
class PartUploaded:
    """What the agent of one node says of the part that it has put into the store."""

    step: int
    node_rank: int
    nodes: int
    world_size: int
    manifest_json: str
    metrics: Mapping[str, Any]
    saved_ms: int
    began_ms: int = 0
    blocking_ms: int = 0
    write_ms: int = 0
    emergency: bool = False


def register_part(*, job_id: str, attempt: int, part: PartUploaded, actor: str) -> bool:
    """Keeps the part; the last one makes the checkpoint. False: the store lacks files of it, which its agent then
    uploads again. Repeated news changes nothing."""
    key = {"job_id": job_id, "attempt": attempt, "step": part.step}
    if Checkpoint.objects.filter(**key).exists():
        return True
    manifest = from_json(part.manifest_json)
    value = Part(
        part.node_rank, part.nodes, part.world_size, manifest, part.saved_ms, part.began_ms,
        part.blocking_ms, part.write_ms, part.emergency,
    )  # fmt: skip
    parts.merge(part.step, [value])  # raises where it cannot be a part
    deletions = shared_files.seen(job_id)
    if shared_files.missing(job_id, manifest):
        return False
    with transaction.atomic():
        if not shared_files.claim(job_id, deletions, manifest):
            return False
        CheckpointPart.objects.get_or_create(
            **key, node_rank=part.node_rank,
            defaults={
                "nodes": part.nodes, "world_size": part.world_size, "manifest": as_document(manifest),
                "saved_ms": part.saved_ms, "began_ms": part.began_ms, "blocking_ms": part.blocking_ms,
                "write_ms": part.write_ms, "emergency": part.emergency,
                "metrics": numbers(part.metrics),
            },
        )  # fmt: skip
    return _complete(job_id, attempt, part.step, actor)


def _complete(job_id: str, attempt: int, step: int, actor: str) -> bool:
    """Makes the checkpoint when all parts are registered. False: files were deleted meanwhile, so it is tried again."""
    rows = CheckpointPart.objects.filter(job=job_id, attempt=attempt, step=step)
    merged = parts.merge(step, [_part(row) for row in rows])
    if isinstance(merged, Incomplete):
        return True
    deletions = _write_description(job_id, merged)
    whole = merged.whole
    with transaction.atomic():
        if not shared_files.claim(job_id, deletions, merged.manifest):
            return False
        saved = Saved(
            step, to_json(merged.manifest), shared_files.url_of(job_id), whole.metrics or {}, whole.saved_at_ms,
            details={
                "began_ms": whole.began_at_ms or None, "blocking_ms": whole.blocking_ms,
                "write_ms": whole.write_ms, "upload_ms": max(0, now_ms() - whole.saved_at_ms),
                "nodes": whole.nodes, "emergency": whole.emergency,
            },
        )  # fmt: skip
        kept = keep(job_id, attempt, saved, actor)
        rows.delete()
    artifacts.account(shared_files.url_of(job_id))
    kept.delete_stale()
    return True


def forget_halves(job_id: str, newest_ended_attempt: int) -> int:
    """Parts of attempts that have ended and will send no more."""
    return CheckpointPart.objects.filter(job=job_id, attempt__lte=newest_ended_attempt).delete()[0]


def _write_description(job_id: str, merged: Merged) -> int:
    deletions = shared_files.seen(job_id)
    digest = hashlib.sha256(merged.description).hexdigest()
    shared_files.write(open_store(shared_files.url_of(job_id)), digest, merged.description)
    return deletions


def _part(row: CheckpointPart) -> Part:
    return Part(
        row.node_rank, row.nodes, row.world_size, from_document(row.manifest), row.saved_ms, row.began_ms,
        row.blocking_ms, row.write_ms, row.emergency, row.metrics,
    )  # fmt: skip
