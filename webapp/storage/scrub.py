"""The scrub: what lies in the store is read again by turns and compared with its digests, before somebody needs it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import Chunk, FileEntry, Manifest, from_document
from platform_core.errors import TrainmasterError
from platform_core.storage.scrub import round_bytes
from platform_core.units import DAY_MS, MINUTE_MS, format_bytes
from trainmaster.store import Store, open_store
from trainmaster.store.copying import lasting_etag
from trainmaster.store.damage import check_chunk, is_damage
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.base.identity import now_ms
from webapp.checkpoints import queries as checkpoint_queries
from webapp.checkpoints import services as checkpoints
from webapp.events import services as events
from webapp.storage import queries
from webapp.storage.models import Damage

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest as Row

log = logging.getLogger(__name__)

EVERY_MS = 10 * MINUTE_MS
LONGEST_SECONDS = 120.0  # a round ends then, whatever it has read; the next one goes on
AGAIN_MS = DAY_MS  # nothing is read more often than this


def scrub(longest: float = LONGEST_SECONDS) -> int:
    """One round: reads what was read longest ago, within its share of the store. Returns the bytes read."""
    if not settings.SCRUB_DAYS:
        return 0
    budget = round_bytes(queries.stored_bytes(), settings.SCRUB_DAYS, EVERY_MS)
    ends, done = time.monotonic() + longest, 0
    while done < budget and (row := artifacts.longest_unchecked()) and row.checked_ms < now_ms() - AGAIN_MS:
        try:
            for size in _read_on(row):
                done += size
                if done >= budget or time.monotonic() >= ends:
                    return done
        except TrainmasterError as error:
            log.warning("the scrub goes on later, for the store cannot be read: %s", error)
            return done
    return done


def _read_on(row: Row) -> Iterator[int]:
    """Reads chunk after chunk, from where the last round stopped; yields their sizes. Raises what is no damage."""
    manifest = from_document(row.document)
    store, etags = open_store(row.source_url), dict(zip(range(len(manifest.files)), row.etags, strict=False))
    damaged = -1  # the rest of a damaged file is not read
    for chunk in manifest.chunks[row.checked_chunks :]:
        size = 0 if chunk.file == damaged else chunk.size
        if size:
            why = _damage_of(row, store, manifest, chunk, etags.get(chunk.file, ""))
            if why:
                damaged = chunk.file
                _found(row, manifest.files[chunk.file], why)
            elif chunk.offset + chunk.size == manifest.files[chunk.file].size:
                _right(row, manifest.files[chunk.file])
        artifact_services.note_check(row, chunk.index + 1)
        yield size
    if not manifest.chunks:
        artifact_services.note_check(row, 0)


def reread(row: Row, entry: FileEntry) -> None:
    """A damaged file that is right again is noted as mended, with the name that the store gives it now."""
    manifest, store = from_document(row.document), open_store(row.source_url)
    number = manifest.files.index(entry)
    if not any(
        _damage_of(row, store, manifest, chunk, "") for chunk in manifest.chunks if chunk.file == number
    ):
        etag = lasting_etag(store, stored_path(row.source_url, entry)) if row.etags else ""
        artifact_services.note_etag(row.id, row.source_url, number, etag)
        _right(row, entry)


def _damage_of(row: Row, store: Store, manifest: Manifest, chunk: Chunk, etag: str) -> str:
    try:
        check_chunk(store, manifest, chunk, etag)
    except TrainmasterError as error:
        if is_damage(error, row.source_url) and _store_is_there(row):
            return str(error)
        raise
    return ""


def _store_is_there(row: Row) -> bool:
    """A folder whose disk is not mounted has nothing at all."""
    place = artifacts.store_of(row.source_url)
    return place.scheme != "file" or Path("/", *place.parts, row.kind).is_dir()


@transaction.atomic
def _found(row: Row, entry: FileEntry, why: str) -> None:
    """Unless its files were deleted, or replaced, while they were read."""
    now = artifact_services.lock(row.id)
    if now.source_url != row.source_url:
        return
    checkpoints.mark_lost(row.id, why)
    damage, new = Damage.objects.get_or_create(
        manifest=row.id, path=entry.path,
        defaults={
            "kind": row.kind, "name": _name(row), "why": why, "bytes": entry.size, "found_ms": now_ms()
        },
    )  # fmt: skip
    if not new and damage.mended_ms is None:
        return
    if not new:
        Damage.objects.filter(pk=damage.pk).update(why=why, found_ms=now_ms(), mended_ms=None, mender="")
    _tell("StoreDamaged", row, f"{entry.path} of {damage.name}, {format_bytes(entry.size)}: {why}")


@transaction.atomic
def _right(row: Row, entry: FileEntry) -> None:
    damages = Damage.objects.filter(manifest=row.id)
    if damages.filter(path=entry.path, mended_ms=None).update(mended_ms=now_ms()):
        if not damages.filter(mended_ms=None).exists():
            checkpoints.mark_whole(row.id, [damage.why for damage in damages])
        _tell("StoreMended", row, f"{entry.path} of {_name(row)} has its bytes again")


def _tell(kind: str, row: Row, cause: str) -> None:
    for team in row.teams.values_list("slug", flat=True).order_by("slug"):
        events.record(kind, f"storage:{row.id}", actor="system", team=team, cause=cause)


def _name(row: Row) -> str:
    return (checkpoint_queries.name_of(row.id) or artifacts.names([row.id], None).get(row.id, row.kind))[:160]
