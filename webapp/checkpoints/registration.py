"""The row of a checkpoint that is whole in the store, and the news of it to its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import transaction

from platform_core.jobs import events as ev
from platform_core.json_values import storable
from webapp.artifacts import services as artifacts
from webapp.base.identity import new_id, now_ms
from webapp.checkpoints import files, orders, turns
from webapp.checkpoints.models import Checkpoint
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint whose files are in the store; None: not known."""

    step: int
    manifest_json: str
    source_url: str
    metrics: Mapping[str, Any]
    saved_ms: int
    etags: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)  # more columns of the row


@dataclass(frozen=True, slots=True)
class Kept:
    """`stale`: URLs at which the same files lie and are not needed; they are deleted after the transaction."""

    checkpoint: Checkpoint
    manifest: Manifest
    stale: tuple[str, ...]

    def delete_stale(self) -> None:
        for url in self.stale:
            files.delete(url, self.manifest)


@transaction.atomic
def keep(job_id: str, attempt: int, saved: Saved, actor: str) -> Kept:
    """Announced twice, it is one row."""
    jobs.lock(job_id)
    job = job_queries.find(job_id)
    assert job is not None, "an attempt's job exists"
    manifest, replaced = _registered(saved.manifest_json, job.team_id, saved.source_url, saved.etags)
    row, made = Checkpoint.objects.get_or_create(
        job=job, attempt=attempt, step=saved.step,
        defaults={
            "id": new_id("ckpt"), "manifest": manifest, "metrics": numbers(saved.metrics),
            "saved_ms": saved.saved_ms, "bytes": manifest.total_bytes, **saved.details,
        },
    )  # fmt: skip
    if made and (why := job_queries.suspect(job_id, attempt, saved.step)):
        row.damaged = why
        row.save(update_fields=["damaged"])
        turns.give([job_id])
    elif made:
        event = ev.CheckpointSaved(
            at_ms=now_ms(), actor=actor, attempt=attempt, step=saved.step, checkpoint=row.id,
            save_ms=row.write_ms or 0,
        )  # fmt: skip
        jobs.observe(job_id, event)
        orders.answered(row)
        turns.give([job_id])
        jobs.refresh_spares(job_id)
    # An earlier attempt saved the very same, which is kept where it lies.
    elsewhere = saved.source_url if manifest.source_url != saved.source_url else ""
    return Kept(row, manifest, tuple(filter(None, (elsewhere, replaced))))


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Without NaN and infinities, which JSON does not have."""
    return {name: value for name, value in storable(dict(metrics)).items() if isinstance(value, int | float)}


def _registered(text: str, team: str, source_url: str, etags: Sequence[str]) -> tuple[Manifest, str]:
    """The manifest, and where the same bytes lay damaged until now."""
    manifest = artifacts.register_json(text, team, source_url, etags)
    damaged = Checkpoint.objects.filter(manifest=manifest).exclude(damaged="")
    if manifest.source_url in ("", source_url) or not damaged.exists():
        return manifest, ""
    old = artifacts.vacate(artifacts.lock(manifest.id))
    damaged.update(damaged="")  # whole again, in another place
    return artifacts.register_json(text, team, source_url, etags), old
