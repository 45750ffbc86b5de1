"""How often a job should save, from what its saves, its starts and its nodes have shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median_low
from typing import TYPE_CHECKING, Any

from platform_core.checkpointing.habit import Review, Save, review
from platform_core.units import DAY_MS
from webapp.base.identity import now_ms
from webapp.events import queries as events
from webapp.jobs import queries as jobs
from webapp.nodes import queries as clusters

if TYPE_CHECKING:
    from webapp.checkpoints.models import Checkpoint
    from webapp.jobs.models import Job

WINDOW_MS = 30 * DAY_MS  # in which lost nodes are counted
NEWEST = 200  # saves that are looked at


def of_job(job: Job, rows: Iterable[Checkpoint]) -> Review | None:
    """None before the first save. `rows` with those whose bytes are deleted: they were saved all the same."""
    newest = sorted(rows, key=lambda row: row.saved_ms)[-NEWEST:]
    if not newest:
        return None
    began = {
        (data.get("attempt"), data.get("step")): at_ms
        for at_ms, data in events.moments("CheckpointStarted", f"job:{job.id}", NEWEST)
    }
    saves = [Save(row.attempt, _began_ms(row, began), row.saved_ms) for row in newest]
    starts, now = jobs.starts(job.id), now_ms()
    restart_ms = median_low(starts.took_ms) if starts.took_ms else 0
    lost = clusters.losses(job.gpu_type, now - WINDOW_MS, now)
    return review(saves, max(1, starts.nodes), job.gpu_type, lost, restart_ms)


def _began_ms(row: Checkpoint, started: Mapping[tuple[Any, Any], int]) -> int | None:
    """Of the time for which the loop stood still: what is written beside it costs nothing."""
    if row.blocking_ms is not None:
        return row.saved_ms - row.blocking_ms
    return started.get((row.attempt, row.step))
