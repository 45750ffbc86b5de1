"""Bytes come in through uploads and leave a manifest; a manifest never changes."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FilePart, Manifest, as_document, from_json, join
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS, format_bytes
from trainmaster.store import open_store
from trainmaster.store.copying import lasting_etag, source_url, write_file
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import models, queries
from webapp.base.identity import new_id, now_ms
from webapp.events import services as events

log = logging.getLogger(__name__)
UPLOAD_KINDS = ("code", "dataset", "model")
ABANDONED_MS = HOUR_MS  # a web process was killed while it wrote the file


def register(
    document: Manifest, team: str, source_url: str, etags: Mapping[str, str] = {}, *, uploaded: bool = False
) -> models.Manifest:
    """Keep a manifest whose files already lie under `source_url`, by path with these etags.

    The same content twice is one row, at one place: the first, or the newest upload, whose bytes the platform has just
    hashed on their way there, so that an upload of the right bytes repairs a damaged place.
    """
    called = [etags.get(entry.path, "") for entry in document.files] if any(etags.values()) else []
    with transaction.atomic():
        _, made = models.Manifest.objects.get_or_create(
            id=document.id,
            defaults={
                "kind": document.kind,
                "source_url": source_url,
                "etags": called,
                "total_bytes": document.total_bytes,
                "files": len(document.files),
                "document": as_document(document),
                "created_ms": now_ms(),
            },
        )
        row = lock(document.id)
        # Its bytes were deleted, and now are here again; or they were written anew where they lay, or elsewhere.
        if not made and (uploaded or row.source_url in ("", source_url)):
            row.source_url, row.etags = source_url, called
            row.save(update_fields=["source_url", "etags"])
        row.teams.add(team)  # type: ignore[arg-type]  # the key of a team is its slug
    return row


def lock(manifest_id: str) -> models.Manifest:
    """Until the caller's transaction ends, nobody begins to use these bytes and nobody deletes them."""
    return models.Manifest.objects.select_for_update().get(id=manifest_id)


def vacate(row: models.Manifest) -> str:
    """The bytes of this locked manifest are about to be deleted. Returns where they lie."""
    url, row.source_url, row.etags = row.source_url, "", []
    row.save(update_fields=["source_url", "etags"])
    return url


def register_json(text: str, team: str, source_url: str, etags: Sequence[str] = ()) -> models.Manifest:
    """As an agent sends it; raises manifest_invalid unless it is sound. `etags` are in the order of its files."""
    document = from_json(text)
    paths = (entry.path for entry in document.files)
    return register(document, team, source_url, dict(zip(paths, etags, strict=False)))


def start_upload(actor: Actor, team: str, kind: str, name: str, resume: bool = False) -> models.Upload:
    """`resume`: goes on with the newest one of this kind and name that the same person has not completed, if any."""
    permissions.require(actor, "artifact.upload", team)
    if kind not in UPLOAD_KINDS:
        raise TrainmasterError(
            "request_invalid", what="kind", why=f"{kind!r} is not one of {', '.join(UPLOAD_KINDS)}"
        )
    if resume and (begun := queries.resumable(actor.username, team, kind, name[:120])):
        return begun
    return models.Upload.objects.create(
        id=new_id("up"),
        kind=kind,
        team_id=team,
        user_id=accounts.user_key(actor.username),
        name=name[:120],
        created_ms=now_ms(),
    )


def receive_file(actor: Actor, upload_id: str, path: str, body: IO[bytes]) -> FilePart:
    """Stream one file into the store, hashing as it passes.

    The same path again replaces the earlier bytes until the upload is complete; then nothing is written any more.
    """
    check_path(path)
    return _write(_own_upload(actor, upload_id), path, iter(partial(body.read, 1 << 20), b""))


def take_file(actor: Actor, upload_id: str, path: str, manifest_id: str, sha256: str) -> FilePart:
    """Copy a file that the team has sent before, within the store.

    Raises not_found where the team has no such file, and verification_failed where the store has lost its bytes.
    """
    check_path(path)
    upload = _own_upload(actor, upload_id)
    row = models.Manifest.objects.filter(id=manifest_id, teams=upload.team_id, kind=upload.kind).first()
    entry = queries.entries(manifest_id).get(sha256) if row is not None else None
    if row is None or entry is None or not row.source_url:
        raise TrainmasterError("not_found", what=f"file {sha256} of {manifest_id}")
    blocks = queries.opened(row.source_url).stream_range(stored_path(row.source_url, entry), 0, entry.size)
    part = _write(upload, path, blocks)
    if part.entry.sha256 != sha256:
        _end_writing(upload.id, path, broke_off=True)
        raise TrainmasterError("verification_failed", path=path)
    return part


def _write(own: models.Upload, path: str, blocks: Iterable[bytes]) -> FilePart:
    upload = _begin_writing(own, path)
    store = open_store(settings.STORE_URL)
    try:
        part = write_file(store, upload.kind, upload.id, path, _limited(blocks, path, upload))
        etag = lasting_etag(store, f"{upload.kind}/{upload.id}/{path}")
    except BaseException as error:
        refused = isinstance(error, TrainmasterError) and error.code == "too_large"
        _end_writing(upload.id, path, broke_off=not refused)
        if isinstance(error, TrainmasterError) and error.code == "source_unavailable":
            log.warning("upload %s: %s", upload.id, error)  # it names folders of the platform
            raise TrainmasterError("unavailable", what="The store") from error
        raise
    _end_writing(upload.id, path, part.as_document() | {"etag": etag})
    return part


@transaction.atomic
def _begin_writing(upload: models.Upload, path: str) -> models.Upload:
    """Nobody completes the upload until this file is written, and nobody else writes it."""
    row = models.Upload.objects.select_for_update().get(id=upload.id)
    if row.manifest_id is not None:
        raise TrainmasterError("request_invalid", what=f"upload {row.id}", why="it is complete already")
    for other in (row.files | row.writing).keys() - {path}:
        file, folder = sorted((path, other), key=len)
        if folder.startswith(f"{file}/"):
            why = f"{file} is a folder, as {folder} lies in it; it cannot be a file as well"
            raise TrainmasterError("request_invalid", what=f"the path {path}", why=why)
    if row.writing.get(path, 0) > now_ms() - ABANDONED_MS:
        sentence = f"{path} of upload {row.id} is being written by another request; wait for its answer"
        raise TrainmasterError("upload_incomplete", sentence, upload=row.id)
    row.writing[path] = now_ms()
    row.save(update_fields=["writing"])
    return row


@transaction.atomic
def _end_writing(
    upload_id: str, path: str, part: Mapping[str, Any] | None = None, broke_off: bool = False
) -> None:
    row = models.Upload.objects.select_for_update().get(id=upload_id)
    row.writing.pop(path, None)
    if broke_off:  # whether the store has the old bytes or the new ones is not known
        row.writing[path] = 0
    if part is not None:
        row.bytes += part["size"] - row.files.get(path, {"size": 0})["size"]
        row.files[path] = part
    row.save(update_fields=["writing", "files", "bytes"])


def complete_upload(actor: Actor, upload_id: str, expected_files: int | None = None) -> models.Manifest:
    """Make the manifest of everything received. Completing again gives the same manifest."""
    with transaction.atomic():
        upload = models.Upload.objects.select_for_update().get(id=_own_upload(actor, upload_id).id)
        if upload.manifest is not None:
            return upload.manifest
        if upload.writing:
            paths = ", ".join(sorted(upload.writing)[:5])
            sentence = f"Upload {upload_id} still waits for {paths}: wait for these requests, or send the files again"
            raise TrainmasterError("upload_incomplete", sentence, upload=upload_id)
        missing = max(expected_files or 1, 1) - len(upload.files)
        if missing > 0:
            raise TrainmasterError("upload_incomplete", upload=upload_id, missing=missing)
        document = join(upload.kind, [FilePart.from_document(part) for part in upload.files.values()])
        source = source_url(settings.STORE_URL, upload.kind, upload.id)
        etags = {path: part.get("etag", "") for path, part in upload.files.items()}
        upload.manifest = register(document, upload.team_id, source, etags, uploaded=True)
        upload.files = {}
        upload.save(update_fields=["manifest", "files"])
        return upload.manifest


def _own_upload(actor: Actor, upload_id: str) -> models.Upload:
    upload = models.Upload.objects.select_related("user", "manifest").filter(id=upload_id).first()
    if upload is None or upload.user.username != actor.username:
        raise TrainmasterError("not_found", what=f"upload {upload_id}")
    permissions.require(actor, "artifact.upload", upload.team_id)
    return upload


def _limited(blocks: Iterable[bytes], path: str, upload: models.Upload) -> Iterator[bytes]:
    """The blocks, up to the limit of one file and to what the team has left."""
    limit, team_limit = settings.UPLOAD_LIMIT_BYTES, settings.TEAM_UPLOAD_LIMIT_BYTES
    used = models.Upload.objects.filter(team=upload.team_id).aggregate(sum=Sum("bytes"))["sum"] or 0
    replaced = upload.files.get(path, {"size": 0})["size"]
    left = team_limit - used + replaced
    own_limit = queries.storage_limit(upload.team_id, upload.kind)
    own_used = queries.uploaded_of(upload.team_id, upload.kind) if own_limit is not None else 0
    size = 0
    for block in blocks:
        size += len(block)
        if size > limit:
            raise TrainmasterError("too_large", what=path, size=f"over {limit} bytes", limit=limit)
        if size > left:
            sentence = (
                f"{path} brings team {upload.team_id} over the {format_bytes(team_limit)} that a team may upload; "
                f"{format_bytes(max(left, 0))} are left. An operator can raise TRAINMASTER_TEAM_UPLOAD_LIMIT_BYTES"
            )
            raise TrainmasterError("too_large", sentence, limit=team_limit)
        if own_limit is not None and size > own_limit - own_used + replaced:
            raise queries.beyond_limit(upload.team_id, upload.kind, own_used, own_limit, path)
        yield block


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


def discard_upload(upload_id: str, size: int) -> bool:
    """Deletes an upload that was never completed, and what the store has of it.

    False where it has more or fewer bytes than `size` by now, is written, or was completed.
    """
    with transaction.atomic():
        row = (
            models.Upload.objects.select_for_update().filter(id=upload_id, manifest=None, bytes=size).first()
        )
        if row is None or any(began_ms > now_ms() - ABANDONED_MS for began_ms in row.writing.values()):
            return False
        kind = row.kind
        row.delete()
    store = open_store(settings.STORE_URL)
    for entry in store.list(f"{kind}/{upload_id}/"):
        store.delete(entry.path)
    return True


def discard_superseded(upload: models.Upload) -> bool:
    """Deletes the files of a complete upload that lie elsewhere as well. False where its manifest names them by now."""
    places = [source_url(store, upload.kind, upload.id) for store in queries.store_urls()]
    with transaction.atomic():
        row = lock(str(upload.manifest_id))
        if row.source_url in ("", *places) or row.moved_from in places:
            return False
        models.Upload.objects.filter(id=upload.id).delete()
    for place in places:
        store = open_store(place)
        for entry in store.list():
            store.delete(entry.path)
    return True


def discard_files(manifest_id: str) -> bool:
    """Deletes the files of a manifest to which nothing refers, and its uploads. False where something does by now."""
    with transaction.atomic():
        row = lock(manifest_id)
        if not row.source_url or queries.referenced([row.id], besides="artifacts.Upload"):
            return False
        queries.path_in_store(row.source_url)
        places = [vacate(row), *filter(None, [row.moved_from])]
        models.Upload.objects.filter(manifest=row).delete()
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


@transaction.atomic
def note_move(manifest_id: str, before: str, after: str, etags: list[str]) -> bool:
    """Its files were copied from the one place to the other. False where they lie elsewhere by now."""
    row = lock(manifest_id)
    if row.source_url != before:
        return False
    row.source_url, row.etags, row.moved_from, row.moved_ms = after, etags, before, now_ms()
    row.save(update_fields=["source_url", "etags", "moved_from", "moved_ms"])
    return True


def discard_moved(manifest_id: str) -> None:
    """Deletes the files at the place from which they were moved."""
    row = models.Manifest.objects.get(id=manifest_id)
    if row.moved_from and row.moved_from != row.source_url:
        _delete_files(row.moved_from, row)
    forget_move(manifest_id, row.moved_from)


def forget_move(manifest_id: str, moved_from: str) -> None:
    models.Manifest.objects.filter(id=manifest_id, moved_from=moved_from).update(moved_from="")


def _delete_files(url: str, row: models.Manifest) -> None:
    store = open_store(url)
    for entry in row.document["files"]:
        store.delete(entry["path"])
