"""What jobs could not read of a dataset: listed over all jobs, and dropped or released by a person."""

from __future__ import annotations

import logging
from collections.abc import Collection

from django.db import transaction
from django.db.models import Case, IntegerField, Value, When

from platform_core.errors import TrainmasterError
from platform_core.loading.dropped import NONE, Dropped, Item, collect
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.datasets.models import DROPPED, OPEN, RELEASED, DatasetSnapshot, Unreadable
from webapp.events import services as events

log = logging.getLogger(__name__)

MOST_ROWS = 10_000  # of a version; more are a broken version, which nobody reviews one by one
JOBS_KEPT = 20
SHOWN = 200
DECISIONS = {"drop": DROPPED, "release": RELEASED}


@transaction.atomic
def set_aside(snapshot_id: str, job_id: str, item: Item, reason: str, at_ms: int) -> None:
    """A job could not read this. Told again, by another rank or attempt, it counts once. What was released and is
    unreadable still waits for a decision again."""
    snapshot = DatasetSnapshot.objects.select_for_update().filter(id=snapshot_id).first()
    if snapshot is None:
        return
    named = {
        "snapshot": snapshot, "shard": item.shard, "loader": "" if item.shard else item.loader,
        "samples": 0 if item.shard else item.samples, "sample": -1 if item.sample is None else item.sample,
    }  # fmt: skip
    row = Unreadable.objects.filter(**named).first()
    if row is None and Unreadable.objects.filter(snapshot=snapshot).count() >= MOST_ROWS:
        log.warning("%s of dataset version %s is not listed: %s rows are", item, snapshot_id, MOST_ROWS)
        return
    row = row or Unreadable(**named, first_ms=at_ms, last_ms=at_ms)
    row.reason, row.last_ms = reason, max(row.last_ms, at_ms)
    if job_id not in row.jobs:
        row.jobs = [job_id, *row.jobs][:JOBS_KEPT]
        row.job_count += 1
        row.state = OPEN if row.state == RELEASED else row.state
    row.save()


@transaction.atomic
def decide(
    actor: Actor, snapshot: DatasetSnapshot, row_ids: Collection[int], decision: str
) -> list[Unreadable]:
    """`drop`: later jobs leave them out. `release`: they are read again. Raises request_invalid and not_found."""
    what = f"dataset {snapshot.name} version {snapshot.version}"
    permissions.require(actor, "dataset.edit", snapshot.team_id, what=what)
    if decision not in DECISIONS:
        why = f"{decision!r} is neither drop nor release"
        raise TrainmasterError("request_invalid", what="decision", why=why)
    rows = list(
        Unreadable.objects.select_for_update().filter(snapshot=snapshot, id__in=row_ids).order_by("id")
    )
    if missing := set(row_ids) - {row.id for row in rows}:
        raise TrainmasterError("not_found", what=f"unreadable {min(missing)} of {what}")
    changed = [row for row in rows if row.state != DECISIONS[decision]]
    for row in changed:
        row.state, row.decided_ms = DECISIONS[decision], now_ms()
        row.decided_by = accounts.user(actor.username)
        row.save(update_fields=["state", "decided_ms", "decided_by"])
        events.record(
            "DataDropped" if decision == "drop" else "DataReleased", f"dataset:{snapshot.id}", actor=actor.name,
            team=snapshot.team_id, cause=f"{item_of(row)} of {what}",
        )  # fmt: skip
    return rows


def unreadable_of(snapshot_id: str) -> list[Unreadable]:
    """What waits for a decision first, then the newest."""
    waits = Case(When(state=OPEN, then=Value(0)), default=Value(1), output_field=IntegerField())
    rows = Unreadable.objects.filter(snapshot=snapshot_id).select_related("decided_by")
    return list(rows.order_by(waits, "-last_ms", "id")[:SHOWN])


def dropped(snapshot_id: str) -> Dropped:
    """What loaders leave out."""
    rows = Unreadable.objects.filter(snapshot=snapshot_id, state=DROPPED).order_by("id")
    return collect(map(item_of, rows)) if rows else NONE


def item_of(row: Unreadable) -> Item:
    return Item(row.shard, row.loader, row.samples, None if row.sample < 0 else row.sample)
