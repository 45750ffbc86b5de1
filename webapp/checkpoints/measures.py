"""What is measured of checkpoints, for the metrics of Prometheus, for alerts and for service levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from django.db.models import Count, Q, Sum

from platform_core.units import HOUR_MS
from webapp.checkpoints.models import Checkpoint, CheckpointPart
from webapp.events import queries as events

INCOMPLETE_AFTER_MS = HOUR_MS  # the parts of the other nodes do not come any more
COMPARED = 20  # newest saves of a job
LEAST_COMPARED = 3


@dataclass(frozen=True, slots=True)
class Saves:
    """Checkpoints of a period: `damaged` cannot be restored, `incomplete` lack the parts of some nodes, `refused`
    could not be written where their script runs."""

    saved: int
    damaged: int
    incomplete: int
    refused: int

    @property
    def all(self) -> int:
        return self.saved + self.incomplete + self.refused

    @property
    def failed(self) -> int:
        return self.damaged + self.incomplete + self.refused


@dataclass(frozen=True, slots=True)
class Totals:
    """Of all checkpoints ever registered."""

    saved: int
    damaged: int
    bytes: int
    blocking_ms: int
    upload_ms: int


def saves(from_ms: int, to_ms: int, at_ms: int | None = None) -> Saves:
    """`at_ms`: when that is asked, by default at the end of the period; parts may come for a while after it."""
    judged_ms = (to_ms if at_ms is None else at_ms) - INCOMPLETE_AFTER_MS
    rows = Checkpoint.objects.filter(saved_ms__gte=from_ms, saved_ms__lt=to_ms)
    counts = rows.aggregate(saved=Count("id"), damaged=Count("id", filter=~Q(damaged="")))
    left_over = CheckpointPart.objects.filter(saved_ms__gte=from_ms, saved_ms__lt=min(to_ms, judged_ms))
    incomplete = left_over.order_by().values("job", "attempt", "step").distinct().count()
    refused = events.count("CheckpointFailed", "job", from_ms, to_ms)
    return Saves(counts["saved"], counts["damaged"], incomplete, refused)


def slowdowns(job_ids: Collection[str]) -> dict[str, float]:
    """Job → the time of its newest save over the median of those before it; jobs with few saves are left out."""
    rows = Checkpoint.objects.filter(job__in=list(job_ids)).exclude(write_ms=None, upload_ms=None)
    times: dict[str, list[int]] = defaultdict(list)
    for job_id, write_ms, upload_ms in rows.order_by("saved_ms").values_list(
        "job_id", "write_ms", "upload_ms"
    ):
        times[job_id].append((write_ms or 0) + (upload_ms or 0))
    found = {}
    for job_id, lasted in times.items():
        *before, newest = lasted[-COMPARED:]
        if len(before) >= LEAST_COMPARED and (usual := median(before)) > 0:
            found[job_id] = newest / usual
    return found


def totals() -> Totals:
    sums = Checkpoint.objects.aggregate(
        saved=Count("id"), damaged=Count("id", filter=~Q(damaged="")), bytes=Sum("bytes"),
        blocking=Sum("blocking_ms"), upload=Sum("upload_ms"),
    )  # fmt: skip
    return Totals(
        sums["saved"], sums["damaged"], sums["bytes"] or 0, sums["blocking"] or 0, sums["upload"] or 0
    )
