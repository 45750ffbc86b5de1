"""Bytes come in through uploads and leave a manifest; a manifest never changes."""

from collections.abc import Iterable

from django.db import transaction

from platform_core.distribution.content.layout import is_by_digest
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, format_bytes
from trainmaster.store import open_store
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import models, queries
from webapp.artifacts.earlier_files import TAKEN_AT_ONCE, take_files
from webapp.artifacts.registering import lock, register, register_json
from webapp.artifacts.shared_files import (
    account,
    claim,
    delete_doomed,
    deletions_in,
    doom,
    finish_deletions,
    shared_folder,
)
from webapp.artifacts.uploads import (
    UPLOAD_KINDS,
    complete_upload,
    discard_upload,
    receive_file,
    start_upload,
)
from webapp.base.identity import now_ms
from webapp.events import services as events

__all__ = [
    "TAKEN_AT_ONCE",
    "UPLOAD_KINDS",
    "account",
    "claim",
    "complete_upload",
    "delete_doomed",
    "deletions_in",
    "discard_upload",
    "doom",
    "finish_deletions",
    "lock",
    "receive_file",
    "register",
    "register_json",
    "shared_folder",
    "start_upload",
    "take_files",
]


def vacate(row: models.Manifest) -> str:
    """The bytes of this locked manifest are about to be deleted. Returns where they lie."""
    url, row.source_url, row.etags = row.source_url, "", []
    row.save(update_fields=["source_url", "etags"])
    return url


@transaction.atomic
def set_limit(actor: Actor, team: str, kind: str, size: int | None) -> None:
    """None: the settings alone decide. Raises request_invalid, not_allowed and not_found."""
    permissions.require(actor, "storage.limit", team)
    if kind not in queries.LIMITED_KINDS:
        why = f"{kind!r} is not one of {', '.join(queries.LIMITED_KINDS)}"
        raise TrainmasterError("request_invalid", what="kind", why=why)
    accounts.team(team)
    models.StorageLimit.objects.filter(team=team, kind=kind).delete()
    if size is not None:
        models.StorageLimit.objects.create(team_id=team, kind=kind, bytes=size, set_ms=now_ms())
    cause = f"{kind}: {'no limit of its own' if size is None else format_bytes(size)}"
    events.record("StorageLimitChanged", f"storage:{team}", actor=actor.name, team=team, cause=cause)


def note_check(row: models.Manifest, chunks: int) -> None:
    """So many chunks of it have been read again and compared; all of them: its turn is over."""
    whole = chunks >= len(row.document["chunks"])
    done = {"checked_ms": now_ms(), "checked_chunks": 0} if whole else {"checked_chunks": chunks}
    models.Manifest.objects.filter(id=row.id).update(**done)


@transaction.atomic
def note_etag(manifest_id: str, source_url: str, file: int, etag: str) -> None:
    """What the store calls a file that was written there anew; nothing where it lies elsewhere by now."""
    row = lock(manifest_id)
    if row.etags and row.source_url == source_url:
        row.etags[file] = etag
        row.save(update_fields=["etags"])


def discard_files(manifest_id: str) -> bool:
    """Deletes the files of a manifest to which nothing refers, and its uploads. False where something does by now."""
    with transaction.atomic():
        row = lock(manifest_id)
        if not row.source_url or queries.referenced([row.id], besides="artifacts.Upload"):
            return False
        queries.path_in_store(row.source_url)
        places = [*filter(None, [row.moved_from]), vacate(row)]
        forget_move(row.id, row.moved_from)
        models.Upload.objects.filter(manifest=row).delete()
        for place in filter(is_by_digest, places):
            doom(place, _digests(row))
    for place in places:
        _delete_files(place, row)
    return True


@transaction.atomic
def forget(manifest_id: str) -> None:
    """Deletes the row of a manifest whose files the platform does not keep and to which nothing refers any more."""
    row = lock(manifest_id)
    if not (row.source_url and queries.is_in_store(row.source_url)) and not queries.referenced([row.id]):
        row.delete()


def note_use(manifest_ids: Iterable[str]) -> None:
    """To the day, which is as much as whoever moves unused files needs."""
    now = now_ms()
    rows = models.Manifest.objects.filter(id__in=list(manifest_ids), used_ms__lt=now - DAY_MS)
    rows.update(used_ms=now)


def note_move(manifest_id: str, before: str, after: str, etags: list[str], deletions: int = 0) -> bool:
    """Its files were copied from the one place to the other. False where they lie elsewhere by now, or where some were
    deleted from the folder `after` since there were so many `deletions`."""
    with transaction.atomic():
        row = lock(manifest_id)
        if row.source_url != before:
            return False
        if is_by_digest(after) and not claim(after, _digests(row), deletions):
            return False
        row.source_url, row.etags, row.moved_from, row.moved_ms = after, etags, before, now_ms()
        row.save(update_fields=["source_url", "etags", "moved_from", "moved_ms"])
    for place in filter(is_by_digest, (before, after)):
        account(place)
    return True


def discard_moved(manifest_id: str) -> None:
    """Deletes the files at the place from which they were moved; those that others share there stay."""
    with transaction.atomic():
        row = lock(manifest_id)
        place = row.moved_from
        if place == row.source_url or is_by_digest(place):
            forget_move(row.id, place)
        if place != row.source_url and is_by_digest(place):
            doom(place, _digests(row))
    if place not in ("", row.source_url):
        _delete_files(place, row)
        forget_move(row.id, place)


def forget_move(manifest_id: str, moved_from: str) -> None:
    models.Manifest.objects.filter(id=manifest_id, moved_from=moved_from).update(moved_from="")


def _digests(row: models.Manifest) -> list[str]:
    return [entry["sha256"] for entry in row.document["files"]]


def _delete_files(url: str, row: models.Manifest) -> None:
    """Of a folder that is shared those that are doomed."""
    if is_by_digest(url):
        account(url)
        delete_doomed(url)
        return
    store = open_store(url)
    for entry in row.document["files"]:
        store.delete(entry["path"])
