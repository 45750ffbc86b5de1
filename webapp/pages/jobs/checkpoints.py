"""What checkpoints add to the job pages: the list on a job's page, and the choice to resume from in the form."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from platform_core.checkpointing.habit import Cost, Review, percent
from platform_core.units import format_duration_ms, plural
from webapp.checkpoints import advice, queries
from webapp.checkpoints.models import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.jobs.models import Job


def of_job(job: Job) -> dict[str, Any]:
    rows = cache(lambda: queries.of_job(job.id))
    kept = cache(lambda: [row for row in rows() if row.deleted_ms is None and not row.damaged])
    return {
        "saving": lambda: _saving(advice.of_job(job, rows())),
        "checkpoints": lambda: [
            _line(row, _newest(kept())) for row in rows() if row.deleted_ms is None or row.damaged
        ],
        "checkpoint_ms": lambda: newest.saved_ms if (newest := _newest(kept())) else None,
    }


def _saving(review: Review | None) -> dict[str, Any] | None:
    if review is None:
        return None
    intervals = (("Current", review.now, False), ("Recommended", review.advised, review.floor))
    return {
        "sentence": review.sentence,
        "lines": [_cost(label, cost, floor) for label, cost, floor in intervals if cost is not None],
        "basis": _basis(review),
    }


def _basis(review: Review) -> str:
    """What the recommendation is computed from."""
    median = "" if review.habit.save_ms is None else f" (median {format_duration_ms(review.habit.save_ms)})"
    losses = review.losses
    lost = f"{plural(losses.lost, 'node failure')} of its GPU type in {losses.watched}"
    return (
        f"{plural(review.habit.saves, 'save')}{median}, {plural(review.nodes, 'node')}, "
        f"a restart time of {format_duration_ms(review.restart_ms)}, and {lost}"
    )


def _cost(label: str, cost: Cost, floor: bool) -> dict[str, str]:
    every = format_duration_ms(cost.interval_ms)
    return {
        "label": label,
        "every": f"at least {every}" if floor else every,
        "saving": percent(cost.saving),
        "lost": "unknown" if cost.lost is None else percent(cost.lost),
        "total": "unknown" if cost.lost is None else percent(cost.total),
    }


def _newest(rows: Sequence[Checkpoint]) -> Checkpoint | None:
    return max(rows, key=lambda row: (row.attempt, row.step), default=None)


def _line(row: Checkpoint, newest: Checkpoint | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "step": row.step,
        "at_ms": row.saved_ms,
        "bytes": row.manifest.total_bytes,
        "state": "damaged" if row.damaged else "good",
        "why": row.damaged,
        "metrics": sorted(row.metrics.items()),
        "manifest": row.manifest_id,
        "kept": "newest" if row is newest else "",
    }


def choices(teams: list[str]) -> dict[str, Any]:
    """The newest hundred checkpoints of these teams."""
    rows = queries.newest(teams, 100)
    return {"checkpoints": [{"id": row.id, "label": f"{row.job.name}, step {row.step:,}"} for row in rows]}
