"""Files come in one by one, and become a manifest when all are there.

Those of code and models lie below a folder of their upload, under their own paths. Those of a dataset lie under their
digests in one folder for all its versions: what a version shares with an earlier one is in the store once.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, Sum

from platform_core.distribution.content.layout import is_by_digest
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
    return write(own_upload(actor, upload_id), path, iter(partial(body.read, 1 << 20), b""))


def write(own: models.Upload, path: str, blocks: Iterable[bytes], sha256: str = "") -> FilePart:
    """`sha256`: what they must have. Raises verification_failed."""
    with _writing(own, path) as file:
        store, incoming = open_store(settings.STORE_URL), _incoming(file.upload, path)
        part = write_file(store, incoming, path, _limited(blocks, file))
        if sha256 and part.entry.sha256 != sha256:
            raise TrainmasterError("verification_failed", path=path)
        if is_by_digest(file.upload.source_url):
            _bring(store, file, part, incoming)
        else:
            _note(file, part, lasting_etag(store, incoming))
    return part


def _incoming(upload: models.Upload, path: str) -> str:
    """Where in the store a file is written while its digest is not known; for good where it lies under its path."""
    if not is_by_digest(upload.source_url):
        return f"{upload.kind}/{upload.id}/{path}"
    return f"{_incoming_prefix(upload)}{hashlib.sha256(path.encode()).hexdigest()}"


def _incoming_prefix(upload: models.Upload) -> str:
    folder = queries.path_in_store(upload.source_url).rpartition("/")[0]
    return f"{folder}/{INCOMING}/{upload.id}-"


def _bring(store: Store, file: models.UploadFile, part: FilePart, incoming: str) -> None:
    """Brings a file under its digest. One that is there stays, as other manifests know its etag, unless it is damaged.

    The upload has the digest first: from then on nobody deletes the file.
    """
    upload, entry = file.upload, part.entry
    again = file.sha256 == entry.sha256 and not file.shared
    _hold(file, part)
    shared = open_store(upload.source_url)
    is_there = shared.exists(entry.sha256) and _digest(shared, entry) == entry.sha256
    if is_there:
        store.delete(incoming)
    else:
        store.move(incoming, f"{queries.path_in_store(upload.source_url)}/{entry.sha256}")
    own = upload.received.filter(sha256=entry.sha256, shared=False)
    of_another = is_there and not again and not own.exists()
    _note(file, part, lasting_etag(shared, entry.sha256), shared=of_another)


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


def _hold(file: models.UploadFile, part: FilePart) -> None:
    """From now on nobody deletes the file, though its path is still being written."""
    while not _held(file, part):
        shared_files.delete_doomed(file.upload.source_url)  # whoever began to may have ended in the middle


@transaction.atomic
def _held(file: models.UploadFile, part: FilePart) -> bool:
    locked(file.upload)
    if not shared_files.claim(file.upload.source_url, [part.entry.sha256]):
        return False
    _replace(file, part, shared=True)
    return True


@transaction.atomic
def _note(file: models.UploadFile, part: FilePart, etag: str, shared: bool = False) -> None:
    """It is there, and no longer being written."""
    locked(file.upload)
    file.writing_ms = None
    _replace(file, part, etag, shared)


def _replace(file: models.UploadFile, part: FilePart, etag: str = "", shared: bool = False) -> None:
    """What its path had before; the upload is locked."""
    before, counted = file.sha256, file.own_bytes
    file.part, file.sha256, file.size = part.as_document(), part.entry.sha256, part.entry.size
    file.etag, file.shared = etag, shared
    file.save(update_fields=["part", "sha256", "size", "etag", "shared", "writing_ms"])
    if added := file.own_bytes - counted:
        models.Upload.objects.filter(id=file.upload_id).update(bytes=F("bytes") + added)
    if before not in ("", file.sha256) and is_by_digest(file.upload.source_url):
        shared_files.doom(file.upload.source_url, [before])


def locked(upload: models.Upload) -> models.Upload:
    return models.Upload.objects.select_for_update().get(id=upload.id)


@contextmanager
def _writing(own: models.Upload, path: str) -> Iterator[models.UploadFile]:
    """Meanwhile nobody completes the upload, and nobody else writes this file. What breaks off must be sent again, what
    is too large has changed nothing."""
    file = _begin_writing(own, path)
    try:
        with asking_the_store(own):
            yield file
    except BaseException as error:
        refused = isinstance(error, TrainmasterError) and error.code == "too_large"
        _end_writing(file, None if refused else 0)
        raise


@contextmanager
def asking_the_store(upload: models.Upload) -> Iterator[None]:
    """Its errors name folders of the platform: they are for the log."""
    try:
        yield
    except TrainmasterError as error:
        if error.code != "source_unavailable":
            raise
        log.warning("upload %s: %s", upload.id, error)
        raise TrainmasterError("unavailable", what="The store") from error


@transaction.atomic
def _begin_writing(upload: models.Upload, path: str) -> models.UploadFile:
    row = locked(upload)
    file = files_at(row, [path]).get(path) or models.UploadFile(upload=row, path=path)
    file.writing_ms = now_ms()
    file.save()
    return file


def files_at(row: models.Upload, paths: Collection[str]) -> dict[str, models.UploadFile]:
    """By path, the files of a locked upload that new ones at these paths replace.

    Refuses them where the upload is complete, a path is a folder too, or is being written.
    """
    if row.manifest_id is not None:
        raise TrainmasterError("request_invalid", what=f"upload {row.id}", why="it is complete already")
    _refuse_clashes(row, frozenset(paths))
    files = {file.path: file for file in row.received.filter(path__in=paths)}
    for file in files.values():
        if file.writing_ms and file.writing_ms > now_ms() - ABANDONED_MS:
            sentence = (
                f"{file.path} of upload {row.id} is being written by another request; wait for its answer"
            )
            raise TrainmasterError("upload_incomplete", sentence, upload=row.id)
    return files


def _refuse_clashes(row: models.Upload, paths: frozenset[str]) -> None:
    """A path is a file or a folder, but not both."""
    # What lies in a folder comes between its "/" and its "0". Paths that are taken in order have few others between.
    first = min((f"{path}/" for path in paths), default="")
    last = max((f"{path}0" for path in paths), default="")
    above = {folder for path in paths for folder in _folders(path)}
    near = row.received.filter(Q(path__gt=first, path__lt=last) | Q(path__in=above))
    known = paths.union(near.values_list("path", flat=True))
    for path in known:
        if files := known.intersection(_folders(path)):
            folder = min(files)
            why = f"{folder} is a folder, as {path} lies in it; it cannot be a file as well"
            new = path if path in paths else folder
            raise TrainmasterError("request_invalid", what=f"the path {new}", why=why)


def _folders(path: str) -> list[str]:
    return [path[:end] for end, letter in enumerate(path) if letter == "/"]


def _end_writing(file: models.UploadFile, writing_ms: int | None) -> None:
    file.writing_ms = writing_ms
    if file.part is None and writing_ms is None:
        file.delete()  # it was refused, and there was none before
    else:
        file.save(update_fields=["writing_ms"])


def complete_upload(
    actor: Actor, upload_id: str, expected_files: int | None = None, executable: Collection[str] = ()
) -> models.Manifest:
    """Make the manifest of everything received. Completing again gives the same manifest.

    `executable`: paths of files that are programs; nodes get them with the right to run."""
    upload, made = _complete(actor, upload_id, expected_files, frozenset(executable))
    if made.source_url != upload.source_url and made.moved_from != upload.source_url:
        _delete_copy(upload)
    return made


def _complete(
    actor: Actor, upload_id: str, expected_files: int | None, executable: frozenset[str]
) -> tuple[models.Upload, models.Manifest]:
    with transaction.atomic():
        upload = locked(own_upload(actor, upload_id))
        if upload.manifest is not None:
            return upload, upload.manifest
        files = list(upload.received.order_by("path"))
        if waits := [file.path for file in files if file.writing_ms is not None]:
            paths = ", ".join(waits[:5])
            sentence = f"Upload {upload_id} still waits for {paths}: wait for these requests, or send the files again"
            raise TrainmasterError("upload_incomplete", sentence, upload=upload_id)
        missing = max(expected_files or 1, 1) - len(files)
        if missing > 0:
            raise TrainmasterError("upload_incomplete", upload=upload_id, missing=missing)
        if unknown := executable - {file.path for file in files}:
            why = f"{min(unknown)[:200]} was not sent"
            raise TrainmasterError("request_invalid", what="executable", why=why)
        made = _registered(upload, files, executable)
        upload.manifest, upload.bytes = made, made.total_bytes - made.shared_bytes
        upload.save(update_fields=["manifest", "bytes"])
        upload.received.all().delete()
        if is_by_digest(upload.source_url) and made.source_url != upload.source_url:
            shared_files.doom(upload.source_url, [entry["sha256"] for entry in made.document["files"]])
        same = models.Upload.objects.filter(manifest=made, team=upload.team_id).exclude(id=upload.id)
        same.update(bytes=0)  # the store has them once
        return upload, made


def _registered(
    upload: models.Upload, files: Iterable[models.UploadFile], executable: frozenset[str]
) -> models.Manifest:
    parts = [FilePart.from_document(file.part) for file in files if file.part]
    marked = [
        replace(part, entry=replace(part.entry, executable=part.entry.path in executable)) for part in parts
    ]
    document = join(upload.kind, marked)
    etags = {file.path: file.etag for file in files}
    new = {file.sha256: file.size for file in files if not file.shared}
    shared_bytes = document.total_bytes - sum(new.values()) if is_by_digest(upload.source_url) else 0
    return register(
        document, upload.team_id, upload.source_url, etags, uploaded=True, shared_bytes=shared_bytes
    )


def own_upload(actor: Actor, upload_id: str) -> models.Upload:
    upload = models.Upload.objects.select_related("user", "manifest").filter(id=upload_id).first()
    if upload is None or upload.user.username != actor.username:
        raise TrainmasterError("not_found", what=f"upload {upload_id}")
    permissions.require(actor, "artifact.upload", upload.team_id)
    return upload


def _limited(blocks: Iterable[bytes], file: models.UploadFile) -> Iterator[bytes]:
    """The blocks, up to the limit of one file and to what the team has left."""
    upload, path, replaced = file.upload, file.path, file.own_bytes
    limit, team_limit = settings.UPLOAD_LIMIT_BYTES, settings.TEAM_UPLOAD_LIMIT_BYTES
    used = models.Upload.objects.filter(team=upload.team_id).aggregate(sum=Sum("bytes"))["sum"] or 0
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
        if row is None or row.received.filter(writing_ms__gt=now_ms() - ABANDONED_MS).exists():
            return False
        digests = list(row.received.exclude(sha256="").values_list("sha256", flat=True))
        row.delete()
        if is_by_digest(row.source_url):
            shared_files.doom(row.source_url, digests)
    _delete_copy(models.Upload(id=upload_id, kind=row.kind, source_url=row.source_url))
    return True


def _delete_copy(upload: models.Upload) -> None:
    """What the store has of an upload whose files no manifest names there."""
    store, by_digest = open_store(settings.STORE_URL), is_by_digest(upload.source_url)
    for entry in store.list(_incoming_prefix(upload) if by_digest else f"{upload.kind}/{upload.id}/"):
        store.delete(entry.path)
    if by_digest:
        shared_files.account(upload.source_url)
        shared_files.delete_doomed(upload.source_url)
