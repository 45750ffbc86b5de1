"""What checkpoints add to the job pages: the list on a job's page, and the choice to resume from in the form."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from platform_core.checkpointing.habit import Cost, Review
from platform_core.scheduling.wording import plural
from platform_core.units import DAY_MS, format_duration_ms
from webapp.checkpoints import advice, queries
from webapp.checkpoints.models import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.jobs.models import Job


def of_job(request: HttpRequest, job: Job) -> dict[str, Any]:
    rows = cache(lambda: queries.of_job(job.id))
    kept = cache(lambda: [row for row in rows() if row.deleted_ms is None])
    return {
        "saving": lambda: _saving(advice.of_job(job, rows())),
        "checkpoints": lambda: [_line(row, _newest(kept())) for row in kept()],
        "checkpoint_ms": lambda: newest.saved_ms if (newest := _newest(kept())) else None,
    }


def _saving(told: Review | None) -> dict[str, Any] | None:
    if told is None:
        return None
    per_day = DAY_MS * told.losses.lost / told.losses.node_ms if told.losses.node_ms else 0
    return {
        "sentence": told.sentence,
        "lines": [
            _cost(label, cost, floor)
            for label, cost, floor in (("Now", told.now, False), ("Advised", told.advised, told.floor))
            if cost is not None
        ],
        "facts": [
            (
                "A save takes",
                _lasts(told.habit.save_ms),
                f"in the middle of {plural(told.habit.saves, 'save')}",
            ),
            ("It runs on", plural(told.nodes, "node"), "the loss of one stops them all"),
            (
                "Nodes like these",
                f"{told.losses.lost} lost",
                f"in {told.losses.node_ms / DAY_MS:,.1f} node-days of the last {advice.WINDOW_MS // DAY_MS} days"
                + (f", {per_day:.2g} a day each" if per_day else ""),
            ),
            ("It starts again in", _lasts(told.restart_ms), "from its placement, as often as it did"),
        ],
    }


def _cost(label: str, cost: Cost, floor: bool) -> dict[str, str]:
    every = format_duration_ms(cost.interval_ms)
    return {
        "label": label,
        "every": f"not under {every}" if floor else every,
        "saving": f"{cost.saving:.1%}",
        "lost": "not known" if cost.lost is None else f"{cost.lost:.1%}",
        "total": "not known" if cost.lost is None else f"{cost.total:.1%}",
    }


def _lasts(ms: int | None) -> str:
    return "not known" if ms is None else format_duration_ms(ms)


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
