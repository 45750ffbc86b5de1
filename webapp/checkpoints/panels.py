"""What checkpoints add to the job pages: the list on a job's page, and the choice to resume from in the form."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from webapp.checkpoints import queries
from webapp.checkpoints.models import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.jobs.models import Job


def of_job(request: HttpRequest, job: Job) -> dict[str, Any]:
    kept = cache(lambda: [row for row in queries.of_job(job.id) if row.deleted_ms is None])
    return {
        "checkpoints": lambda: [_line(row, _newest(kept())) for row in kept()],
        "checkpoint_ms": lambda: newest.saved_ms if (newest := _newest(kept())) else None,
    }


def _newest(rows: Sequence[Checkpoint]) -> Checkpoint | None:
    return max(rows, key=lambda row: row.saved_ms, default=None)


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
