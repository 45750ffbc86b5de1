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


def _saving(told: Review | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {
        "sentence": told.sentence,
        "lines": [
            _cost(label, cost, floor)
            for label, cost, floor in (("Now", told.now, False), ("Advised", told.advised, told.floor))
            if cost is not None
        ],
        "from": _from(told),
    }


def _from(told: Review) -> str:
    """What it was reckoned with."""
    takes = (
        "" if told.habit.save_ms is None else f" of {format_duration_ms(told.habit.save_ms)} in the middle"
    )
    restart = f"{format_duration_ms(told.restart_ms)} from a placement until it runs"
    lost = (
        f"{plural(told.losses.lost, 'node')} of its type lost without being drained in {told.losses.watched}"
    )
    return f"{plural(told.habit.saves, 'save')}{takes}; {plural(told.nodes, 'node')}; {restart}; {lost}"


def _cost(label: str, cost: Cost, floor: bool) -> dict[str, str]:
    every = format_duration_ms(cost.interval_ms)
    return {
        "label": label,
        "every": f"not under {every}" if floor else every,
        "saving": percent(cost.saving),
        "lost": "not known" if cost.lost is None else percent(cost.lost),
        "total": "not known" if cost.lost is None else percent(cost.total),
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
