"""Files come in one by one, and become a manifest when all are there.

Those of code and models lie below a folder of their upload, under their own paths. Those of a dataset lie under their
digests in one folder for all its versions: what a version shares with an earlier one is in the store once.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import IO, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from platform_core.distribution.content.layout import is_by_digest, stored_path
from platform_core.distribution.content.manifest import FileEntry, FilePart, join
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from platform_core.units import HOUR_MS, format_bytes
from trainmaster.store import Store, open_store
from trainmaster.store.copying import lasting_etag, source_url, write_file
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import models, queries, shared_files
from webapp.artifacts.registering import register
from webapp.base.identity import new_id, now_ms

log = logging.getLogger(__name__)
UPLOAD_KINDS = ("code", "dataset", "model")
ABANDONED_MS = HOUR_MS  # a web process was killed while it wrote the file
INCOMING = "incoming"  # beside the shared files, where one lies until its digest is known


def start_upload(actor: Actor, team: str, kind: str, name: str, resume: bool = False) -> models.Upload:
    """`resume`: goes on with the newest one of this kind and name that the same person has not completed, if any."""
    permissions.require(actor, "artifact.upload", team)
    if kind not in UPLOAD_KINDS:
        raise TrainmasterError(
            "request_invalid", what="kind", why=f"{kind!r} is not one of {', '.join(UPLOAD_KINDS)}"
        )
    if resume and (begun := queries.resumable(actor.username, team, kind, name[:120])):
        return begun
    key = new_id("up")
    return models.Upload.objects.create(
        id=key,
        kind=kind,
        team_id=team,
        user_id=accounts.user_key(actor.username),
        name=name[:120],
        source_url=_place(kind, team, name[:120], key),
        created_ms=now_ms(),
    )


def _place(kind: str, team: str, name: str, upload_id: str) -> str:
    if kind != "dataset":
        return source_url(settings.STORE_URL, kind, upload_id)
    of_name = hashlib.sha256(name.encode()).hexdigest()[:16]  # a name may have characters that a URL has not
    return shared_files.shared_folder(settings.STORE_URL, f"{kind}/{team}-{of_name}")


def receive_file(actor: Actor, upload_id: str, path: str, body: IO[bytes]) -> FilePart:
    """Stream one file into the store, hashing as it passes.

    The same path again replaces the earlier bytes until the upload is complete; then nothing is written any more.
    """
    check_path(path)
    return _write(_own_upload(actor, upload_id), path, iter(partial(body.read, 1 << 20), b""))


def take_file(actor: Actor, upload_id: str, path: str, manifest_id: str, sha256: str) -> FilePart:
    """A file that the team has sent before: shared where it lies in the same folder, else copied within the store.

    Raises not_found where the team has no such file, and verification_failed where the store has lost its bytes.
    """
    check_path(path)
    upload = _own_upload(actor, upload_id)
    row = models.Manifest.objects.filter(id=manifest_id, teams=upload.team_id, kind=upload.kind).first()
    part = queries.file_parts(manifest_id).get(sha256) if row is not None else None
    if row is None or part is None or not row.source_url:
        raise TrainmasterError("not_found", what=f"file {sha256} of {manifest_id}")
    if row.source_url == upload.source_url and is_by_digest(row.source_url):
        return _share(upload, replace(part, entry=replace(part.entry, path=path)))
    entry = part.entry
    blocks = queries.opened(row.source_url).stream_range(stored_path(row.source_url, entry), 0, entry.size)
    written = _write(upload, path, blocks)
    if written.entry.sha256 != sha256:
        _end_writing(upload.id, path, broke_off=True)
        raise TrainmasterError("verification_failed", path=path)
    return written


def _write(own: models.Upload, path: str, blocks: Iterable[bytes]) -> FilePart:
    upload = _begin_writing(own, path)
    store = open_store(settings.STORE_URL)
    incoming = _incoming(upload, path)
    try:
        part = write_file(store, incoming, path, _limited(blocks, path, upload))
        if is_by_digest(upload.source_url):
            kept = _shared(store, upload, part, incoming)
        else:
            kept = {"etag": lasting_etag(store, incoming)}
    except BaseException as error:
        refused = isinstance(error, TrainmasterError) and error.code == "too_large"
        _end_writing(upload.id, path, broke_off=not refused)
        if isinstance(error, TrainmasterError) and error.code == "source_unavailable":
            log.warning("upload %s: %s", upload.id, error)  # it names folders of the platform
            raise TrainmasterError("unavailable", what="The store") from error
        raise
    _end_writing(upload.id, path, part.as_document() | kept)
    return part


def _incoming(upload: models.Upload, path: str) -> str:
    """Where in the store a file is written while its digest is not known; for good where it lies under its path."""
    if not is_by_digest(upload.source_url):
        return f"{upload.kind}/{upload.id}/{path}"
    return f"{_incoming_prefix(upload)}{hashlib.sha256(path.encode()).hexdigest()}"


def _incoming_prefix(upload: models.Upload) -> str:
    folder = queries.path_in_store(upload.source_url).rpartition("/")[0]
    return f"{folder}/{INCOMING}/{upload.id}-"


def _shared(store: Store, upload: models.Upload, part: FilePart, incoming: str) -> dict[str, Any]:
    """Brings a file under its digest. One that is there stays, as other manifests know its etag, unless it is damaged.

    The upload has the digest first: from then on nobody deletes the file.
    """
    _hold(upload, part)
    shared, entry = open_store(upload.source_url), part.entry
    is_there = shared.exists(entry.sha256) and _digest(shared, entry) == entry.sha256
    own = {each["sha256"] for each in upload.files.values() if not each.get("shared")}
    if is_there:
        store.delete(incoming)
    else:
        store.move(incoming, f"{queries.path_in_store(upload.source_url)}/{entry.sha256}")
    return {"etag": lasting_etag(shared, entry.sha256), "shared": is_there and entry.sha256 not in own}


def _digest(store: Store, entry: FileEntry) -> str:
    """Of what the store has under its digest; "" where it has less."""
    digest = hashlib.sha256()
    try:
        for block in store.stream_range(entry.sha256, 0, entry.size):
            digest.update(block)
    except TrainmasterError as error:
        if error.numbers.get("missing"):
            return ""
        raise
    return digest.hexdigest()


def _share(own: models.Upload, part: FilePart) -> FilePart:
    """No byte moves: the file lies where the upload's own would."""
    path, entry = part.entry.path, part.entry
    upload = _begin_writing(own, path)
    try:
        _hold(upload, part)
        store = open_store(upload.source_url)
        if not (store.exists(entry.sha256) and store.size(entry.sha256) == entry.size):
            raise TrainmasterError("verification_failed", path=path)
        kept = {"etag": lasting_etag(store, entry.sha256), "shared": True}
    except BaseException:
        _end_writing(upload.id, path, broke_off=True)
        raise
    _end_writing(upload.id, path, part.as_document() | kept)
    return part


def _hold(upload: models.Upload, part: FilePart) -> None:
    """From now on nobody deletes the file, though its path is still being written."""
    while not _held(upload, part):
        shared_files.delete_doomed(
            upload.source_url
        )  # whoever began to delete it may have ended in the middle


@transaction.atomic
def _held(upload: models.Upload, part: FilePart) -> bool:
    row = models.Upload.objects.select_for_update().get(id=upload.id)
    if not shared_files.claim(upload.source_url, [part.entry.sha256]):
        return False
    _note(row, part.entry.path, part.as_document() | {"shared": True})
    row.save(update_fields=["files", "bytes"])
    return True


def _note(row: models.Upload, path: str, part: Mapping[str, Any]) -> None:
    """In place of the file that had this path."""
    before = row.files.get(path)
    row.files[path] = part
    row.bytes += _counted(part) - _counted(before)
    if before is not None and before["sha256"] != part["sha256"] and is_by_digest(row.source_url):
        row.save(update_fields=["files"])
        shared_files.doom(row.source_url, [before["sha256"]])


def _counted(part: Mapping[str, Any] | None) -> int:
    return 0 if part is None or part.get("shared") else int(part["size"])


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
        _note(row, path, part)
    row.save(update_fields=["writing", "files", "bytes"])


def complete_upload(actor: Actor, upload_id: str, expected_files: int | None = None) -> models.Manifest:
    """Make the manifest of everything received. Completing again gives the same manifest."""
    upload, made = _complete(actor, upload_id, expected_files)
    if made.source_url != upload.source_url and made.moved_from != upload.source_url:
        _delete_copy(upload, [entry["sha256"] for entry in made.document["files"]])
    return made


def _complete(
    actor: Actor, upload_id: str, expected_files: int | None
) -> tuple[models.Upload, models.Manifest]:
    with transaction.atomic():
        upload = models.Upload.objects.select_for_update().get(id=_own_upload(actor, upload_id).id)
        if upload.manifest is not None:
            return upload, upload.manifest
        if upload.writing:
            paths = ", ".join(sorted(upload.writing)[:5])
            sentence = f"Upload {upload_id} still waits for {paths}: wait for these requests, or send the files again"
            raise TrainmasterError("upload_incomplete", sentence, upload=upload_id)
        missing = max(expected_files or 1, 1) - len(upload.files)
        if missing > 0:
            raise TrainmasterError("upload_incomplete", upload=upload_id, missing=missing)
        made = _registered(upload)
        upload.manifest, upload.files, upload.bytes = made, {}, made.total_bytes - made.shared_bytes
        upload.save(update_fields=["manifest", "files", "bytes"])
        same = models.Upload.objects.filter(manifest=made, team=upload.team_id).exclude(id=upload.id)
        same.update(bytes=0)  # the store has them once
        return upload, made


def _registered(upload: models.Upload) -> models.Manifest:
    document = join(upload.kind, [FilePart.from_document(part) for part in upload.files.values()])
    etags = {path: part.get("etag", "") for path, part in upload.files.items()}
    shared_bytes = 0
    if is_by_digest(upload.source_url):
        new = {part["sha256"]: part["size"] for part in upload.files.values() if not part.get("shared")}
        shared_bytes = document.total_bytes - sum(new.values())
    return register(
        document, upload.team_id, upload.source_url, etags, uploaded=True, shared_bytes=shared_bytes
    )


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
    replaced = _counted(upload.files.get(path))
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
        row.delete()
    _delete_copy(row, [part["sha256"] for part in row.files.values()])
    return True


def _delete_copy(upload: models.Upload, digests: Iterable[str]) -> None:
    """What the store has of an upload whose files no manifest names there."""
    store, by_digest = open_store(settings.STORE_URL), is_by_digest(upload.source_url)
    for entry in store.list(_incoming_prefix(upload) if by_digest else f"{upload.kind}/{upload.id}/"):
        store.delete(entry.path)
    if by_digest:
        shared_files.leave(upload.source_url, digests)
        shared_files.delete_doomed(upload.source_url)
