"""Forecasts of starts: made for the waiting jobs every few seconds, kept beside what came."""

from collections.abc import Collection

from django.db import transaction

from platform_core.scheduling.forecast import forecast
from webapp.jobs import workload
from webapp.live import services as live
from webapp.live.identity import now_ms
from webapp.scheduling import situation
from webapp.scheduling.models import Prediction

KEPT_MS = 30 * 24 * 3_600_000


def predict() -> None:
    """When each waiting job should start. A forecast that has not changed by a tenth of what is left is left alone."""
    now = now_ms()
    snapshot = situation.load(now)
    if not snapshot.pending:
        return
    told = {
        each.job_id: each
        for each in forecast(snapshot, situation.policy(), percent_used=workload.percent_of_limits_used())
    }
    waiting = {job.id for job in snapshot.pending}
    with transaction.atomic():
        known = Prediction.objects.in_bulk(waiting)
        Prediction.objects.filter(job_id__in=[each for each in known if each not in told]).delete()
        changed = []
        for job_id, each in told.items():
            row = known.get(job_id)
            if row is not None and _alike(row.newest_early_ms, each.early_ms, now):
                continue
            first = row or Prediction(
                job_id=job_id, made_ms=now, early_ms=each.early_ms, late_ms=each.late_ms
            )
            first.newest_early_ms, first.newest_late_ms = each.early_ms, each.late_ms
            changed.append(first)
        Prediction.objects.bulk_create(
            changed, batch_size=500, update_conflicts=True, unique_fields=["job_id"],
            update_fields=["newest_early_ms", "newest_late_ms"],
        )  # fmt: skip
        Prediction.objects.filter(made_ms__lt=now - KEPT_MS).exclude(job_id__in=waiting).delete()
    if changed:
        live.publish("cluster")


def _alike(then_ms: int, now_told_ms: int, now: int) -> bool:
    return abs(then_ms - now_told_ms) <= max(5_000, (now_told_ms - now) // 10)


def started(job_ids: Collection[str], at_ms: int) -> None:
    Prediction.objects.filter(job_id__in=job_ids, started_ms=None).update(started_ms=at_ms)
