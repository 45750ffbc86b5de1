"""What checkpoints add to the job pages: the list on a job's page, and the choice to resume from in the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from webapp.checkpoints import queries
from webapp.checkpoints.models import Checkpoint

if TYPE_CHECKING:
    from webapp.jobs.models import Job


def of_job(request: HttpRequest, job: Job) -> dict[str, Any]:
    rows = queries.of_job(job.id)
    good = [row for row in rows if row.deleted_ms is None]
    newest = max(good, key=lambda row: row.saved_ms, default=None)
    return {
        "checkpoints": [_line(row, newest) for row in good],
        "checkpoint_ms": newest.saved_ms if newest else None,
    }


def _line(row: Checkpoint, newest: Checkpoint | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "step": row.step,
        "at_ms": row.saved_ms,
        "bytes": row.manifest.total_bytes,
        "state": "good",
        "metrics": sorted(row.metrics.items()),
        "manifest": row.manifest_id,
        "kept": "newest" if row is newest else "",
    }


def choices(teams: list[str]) -> dict[str, Any]:
    """The newest hundred checkpoints of these teams."""
    rows = queries.newest(teams, 100)
    return {"checkpoints": [{"id": row.id, "label": f"{row.job.name}, step {row.step:,}"} for row in rows]}
