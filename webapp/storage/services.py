"""The account of what the store holds, kept by day, and the end of what nobody needs."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import Case, When
from django.db.models.functions import Coalesce

from platform_core.errors import TrainmasterError
from platform_core.storage.leftovers import OLD_MS, LeftoverKind, is_due, is_leftover
from platform_core.units import DAY_MS, format_bytes, format_micro_dollars
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.base.identity import now_ms
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.events import services as events
from webapp.experiments import queries as runs
from webapp.jobs import logs
from webapp.jobs import queries as jobs
from webapp.registry import queries as models
from webapp.storage.models import Leftover, StorageBudget, StoredDay, StoredShare

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest

log = logging.getLogger(__name__)

KEPT_DAYS = 400
AT_ONCE = 200  # left-overs that a round finds, and deletes; the next one goes on
DATA_KINDS = ("dataset", "model")


def account() -> None:
    """Sets what each team has of each kind today; what it has no more of is 0, so that the curve falls. How it divides
    by project, owner and age is kept as it is now."""
    today = now_ms() // DAY_MS
    holdings = [*artifacts.stored(_origin()), *runs.stored_files(), *logs.stored()]
    figures = defaultdict(list)
    for one in holdings:
        figures[one.team, one.kind].append((one.bytes, one.items, one.cold_bytes))
    with transaction.atomic():
        for key in StoredDay.objects.filter(day__gte=today - 1).values_list("team", "kind"):
            figures[key].append((0, 0, 0))
        rows = []
        for (team, kind), parts in sorted(figures.items()):
            size, items, cold = map(sum, zip(*parts, strict=True))
            rows.append(
                StoredDay(team_id=team, kind=kind, day=today, bytes=size, items=items, cold_bytes=cold)
            )
        StoredDay.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["team", "kind", "day"],
            update_fields=["bytes", "items", "cold_bytes"],
        )
        StoredDay.objects.filter(day__lt=today - KEPT_DAYS).delete()
        StoredShare.objects.all().delete()
        StoredShare.objects.bulk_create(
            StoredShare(team_id=values.pop("team"), **values) for values in map(asdict, holdings)
        )


def _origin() -> Coalesce:
    """Whose a manifest is, as the thing says that was made with it."""
    of_kind = Case(
        When(kind="checkpoint", then=checkpoints.origin()),
        When(kind="dataset", then=datasets.origin()),
        When(kind="model", then=models.origin()),
    )
    return Coalesce(of_kind, runs.origin())


def clean() -> int:
    """Finds what nobody needs any more and deletes what was found long enough ago. Returns how many were deleted."""
    now = now_ms()
    artifact_services.finish_deletions()
    _find(now)
    grace_ms = settings.LEFTOVER_GRACE_DAYS * DAY_MS
    return sum(map(_delete, _due(now, grace_ms)))


def _find(now: int) -> None:
    known = set(Leftover.objects.filter(deleted_ms=None).values_list("item", flat=True))
    uploads = artifacts.abandoned(now - OLD_MS[LeftoverKind.UPLOAD], AT_ONCE, known)
    files = artifacts.unreferenced(DATA_KINDS, now - OLD_MS[LeftoverKind.FILES], AT_ONCE, known)
    files += _old_bundles(now, known)
    teams = dict(
        sorted(((one, team) for one, team, _ in artifacts.teams_of(row.id for row in files)), reverse=True)
    )
    names = artifacts.names([row.id for row in files], None)
    found = [
        Leftover(
            kind=LeftoverKind.UPLOAD, item=row.id, team_id=row.team_id, name=row.name or row.kind, bytes=row.bytes,
            found_ms=now,
        )
        for row, begun_ms in uploads
        if is_leftover(LeftoverKind.UPLOAD, begun_ms, now)
    ] + [
        Leftover(
            kind=LeftoverKind.FILES, item=row.id, team_id=teams[row.id], name=names.get(row.id, row.kind),
            bytes=artifacts.freed_by([row.id]), found_ms=now,
        )
        for row in files
        if row.id in teams
    ]  # fmt: skip
    again = Leftover.objects.filter(item__in=[row.item for row in found]).exclude(deleted_ms=None)
    again.delete()  # the same bytes were sent once more
    Leftover.objects.bulk_create(found, ignore_conflicts=True)


def _old_bundles(now: int, known: set[str]) -> list[Manifest]:
    """Code that no job has used for as long as the setting says."""
    if not settings.BUNDLE_RETENTION_DAYS:
        return []
    before = now - settings.BUNDLE_RETENTION_DAYS * DAY_MS
    return artifacts.unreferenced(("code",), before, AT_ONCE, known | jobs.used_bundles(before))


def _due(now: int, grace_ms: int) -> list[Leftover]:
    rows = Leftover.objects.filter(deleted_ms=None, found_ms__lte=now - grace_ms).order_by("found_ms", "id")
    rows = rows.filter(kept_by=None)[:AT_ONCE]
    return [row for row in rows if is_due(row.found_ms, row.kept_by_id is not None, grace_ms, now)]


def _is_used_bundle(row: Leftover) -> bool:
    """Whether a job has used the code since it was found. Jobs name it in their description, not by a reference."""
    before = now_ms() - max(1, settings.BUNDLE_RETENTION_DAYS) * DAY_MS
    found = artifacts.find(row.item)
    return found is not None and found.kind == "code" and bool(jobs.used_bundles(before, spec__code=row.item))


def _delete(row: Leftover) -> bool:
    """Bytes that are used again, or grew since they were found, are forgotten; they are found anew if that ends."""
    try:
        if row.kind == LeftoverKind.UPLOAD:
            deleted = artifact_services.discard_upload(row.item, row.bytes)
        else:
            deleted = not _is_used_bundle(row) and artifact_services.discard_files(row.item)
    except TrainmasterError as error:
        log.warning("left-over %s stays for now: %s", row.item, error)
        return False
    if not deleted:
        row.delete()
        return False
    with transaction.atomic():
        row.deleted_ms = now_ms()
        row.save(update_fields=["deleted_ms"])
        events.record(
            "LeftoverDeleted", f"storage:{row.item}", actor="system", team=row.team_id,
            cause=f"{row.name}, {format_bytes(row.bytes)}: nothing had referred to it",
        )  # fmt: skip
    return True


@transaction.atomic
def keep(actor: Actor, leftover_id: int, kept: bool) -> Leftover:
    """Keeps a left-over from deletion, or lets it go again. Raises not_found, and request_invalid once it is gone."""
    what = f"left-over {leftover_id}"
    row = Leftover.objects.select_for_update(of=("self",)).filter(pk=leftover_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=what)
    permissions.require(actor, "storage.keep", row.team_id, what=what)
    if row.deleted_ms is not None:
        raise TrainmasterError("request_invalid", what=what, why="its bytes are deleted")
    row.kept_by = accounts.user(actor.username) if kept else None
    row.found_ms = row.found_ms if kept else now_ms()  # its grace begins anew
    row.save(update_fields=["kept_by", "found_ms"])
    events.record(
        "LeftoverKept" if kept else "LeftoverReleased", f"storage:{row.item}", actor=actor.name, team=row.team_id,
        cause=row.name,
    )  # fmt: skip
    return row


@transaction.atomic
def set_budget(actor: Actor, team: str, month_micro_dollars: int | None) -> None:
    """What the team means to spend on the store a month; beyond it an alert fires. None: nothing."""
    permissions.require(actor, "storage.limit", team)
    accounts.team(team)
    StorageBudget.objects.filter(team=team).delete()
    if month_micro_dollars is not None:
        StorageBudget.objects.create(team_id=team, month_micro_dollars=month_micro_dollars)
    amount = "none" if month_micro_dollars is None else f"{format_micro_dollars(month_micro_dollars)} a month"
    events.record("StorageBudgetChanged", f"storage:{team}", actor=actor.name, team=team, cause=amount)
