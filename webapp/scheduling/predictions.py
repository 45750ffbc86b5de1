"""Start forecasts: computed every few seconds for the waiting jobs, kept beside the actual starts."""

import time
from collections.abc import Collection

from django.core.cache import cache
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce

from platform_core.scheduling.forecast.start_times import forecast
from webapp.base.identity import now_ms
from webapp.jobs import workload
from webapp.scheduling import situation
from webapp.scheduling.models import Prediction
from webapp.sockets import services as sockets

KEPT_MS = 30 * 24 * 3_600_000
# Set while forecasts are computed and during a pause after it. With 5,000 waiting jobs on 1,250 nodes they take most of
# a minute, and rounds need the workers more.
BUSY = "queue:forecasts"
LONGEST_S = 600
RESTS = 4  # the pause, as a multiple of the time they took: they never use more than a fifth of a processor


def predict() -> None:
    """Compute forecasts, unless another worker does or the pause after the last ones has not passed."""
    if not cache.add(BUSY, 1, timeout=LONGEST_S):
        return
    begun = time.monotonic()
    try:
        _predict()
    finally:
        cache.set(BUSY, 1, timeout=rest_s(time.monotonic() - begun))  # 0 forgets it at once


def rest_s(took_s: float) -> int:
    return int(RESTS * took_s)


def _predict() -> None:
    """Store when each waiting job should start. Changes below a tenth of the time left are not stored."""
    now = now_ms()
    snapshot = situation.load(now)
    if not snapshot.pending:
        return
    forecasts = {
        found.job_id: found
        for found in forecast(snapshot, situation.policy(), percent_used=workload.percent_of_limits_used())
    }
    waiting = {job.id for job in snapshot.pending}
    with transaction.atomic():
        known = Prediction.objects.in_bulk(waiting)
        # The first forecast stays, as it is judged: deleting it would leave out just the jobs that it missed.
        gone = [
            job_id
            for job_id, row in known.items()
            if job_id not in forecasts and row.newest_early_ms is not None
        ]
        Prediction.objects.filter(job_id__in=gone).update(newest_early_ms=None, newest_late_ms=None)
        changed = []
        for job_id, found in forecasts.items():
            row = known.get(job_id)
            if row is not None and _alike(row.newest_early_ms, found.early_ms, now):
                continue
            first = row or Prediction(
                job_id=job_id, made_ms=now, early_ms=found.early_ms, late_ms=found.late_ms
            )
            first.newest_early_ms, first.newest_late_ms = found.early_ms, found.late_ms
            changed.append(first)
        Prediction.objects.bulk_create(
            changed, batch_size=500, update_conflicts=True, unique_fields=["job_id"],
            update_fields=["newest_early_ms", "newest_late_ms"],
        )  # fmt: skip
        Prediction.objects.filter(made_ms__lt=now - KEPT_MS).exclude(job_id__in=waiting).delete()
    if changed or gone:
        sockets.publish("cluster")


def _alike(then_ms: int | None, now_told_ms: int, now: int) -> bool:
    return then_ms is not None and abs(then_ms - now_told_ms) <= max(5_000, (now_told_ms - now) // 10)


def started(job_ids: Collection[str], at_ms: int) -> None:
    """Record the first start, which the first forecast is compared with. Later forecasts are for resumptions."""
    first = Coalesce(F("started_ms"), Value(at_ms))
    Prediction.objects.filter(job_id__in=job_ids).update(
        started_ms=first, newest_early_ms=first, newest_late_ms=first
    )
