"""Files that a team has sent before join an upload without being sent again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import transaction
from django.db.models import F

from platform_core.distribution.content.layout import is_by_digest, stored_path
from platform_core.distribution.content.manifest import FilePart
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from trainmaster.store import Store, open_store
from trainmaster.store.copying import lasting_etag
from webapp.accounts.permissions import Actor
from webapp.artifacts import models, queries, shared_files, uploads

TAKEN_AT_ONCE = 1000  # files of one request
_ASKED_AT_ONCE = 8  # files of a store that answers from far away


def take_files(actor: Actor, upload_id: str, manifest_id: str, files: Sequence[tuple[str, str]]) -> list[str]:
    """Of these paths, each with a SHA-256, those whose file comes from an earlier manifest of the team.

    Files in the same folder of the store are shared, all at once; others are copied within the store, one by one. Paths
    that are left out are to be sent: the team has no such file there, or the store has lost its bytes.
    """
    _check_paths([path for path, _ in files])
    upload = uploads.own_upload(actor, upload_id)
    earlier = models.Manifest.objects.filter(id=manifest_id, teams=upload.team_id, kind=upload.kind)
    url = earlier.values_list("source_url", flat=True).first()  # its document may have megabytes
    if not url:
        return []
    known = queries.file_parts(manifest_id)
    parts = {path: known[sha256] for path, sha256 in files if sha256 in known}
    is_shared = url == upload.source_url and is_by_digest(url)
    taken = _share(upload, parts) if is_shared else list(_copy(upload, url, parts))
    if lost := parts.keys() - set(taken):
        _wait_for(upload, lost)
    return taken


def _check_paths(paths: Sequence[str]) -> None:
    seen = set()
    for path in map(check_path, paths):
        if path in seen:
            raise TrainmasterError("request_invalid", what=f"the path {path}", why="it is there twice")
        seen.add(path)


def _share(upload: models.Upload, parts: Mapping[str, FilePart]) -> list[str]:
    """No byte moves: the files lie where the upload's own would."""
    store, sizes = (
        open_store(upload.source_url),
        {part.entry.sha256: part.entry.size for part in parts.values()},
    )
    while True:
        deletions = shared_files.deletions_in(upload.source_url)
        etags = _etags(upload, store, sizes)
        there = {path: part for path, part in parts.items() if part.entry.sha256 in etags}
        if _note(upload, there, etags, deletions):
            return list(there)
        shared_files.delete_doomed(upload.source_url)  # whoever began to may have ended in the middle


def _copy(upload: models.Upload, url: str, parts: Mapping[str, FilePart]) -> Iterator[str]:
    store, places = queries.opened(url), {path: stored_path(url, part.entry) for path, part in parts.items()}
    there = _etags(upload, store, {places[path]: part.entry.size for path, part in parts.items()})
    for path, part in parts.items():
        if places[path] not in there:
            continue
        blocks = store.stream_range(places[path], 0, part.entry.size)
        try:
            uploads.write(upload, path, blocks, part.entry.sha256)
        except TrainmasterError as error:
            if error.code != "verification_failed":
                raise
        else:
            yield path


def _etags(upload: models.Upload, store: Store, sizes: Mapping[str, int]) -> dict[str, str]:
    """By place in the store, of the files that it has with these sizes."""

    def etag(place: str) -> str | None:
        try:
            return lasting_etag(store, place) if store.size(place) == sizes[place] else None
        except TrainmasterError as error:
            if error.numbers.get("missing"):
                return None
            raise

    with uploads.asking_the_store(upload), ThreadPoolExecutor(_ASKED_AT_ONCE, "etags") as pool:
        known = zip(sizes, pool.map(etag, sizes), strict=True)
        return {place: found for place, found in known if found is not None}


@transaction.atomic
def _wait_for(upload: models.Upload, paths: Collection[str]) -> None:
    """The upload is not completed before these are sent."""
    row = uploads.locked(upload)
    uploads.files_at(row, paths)
    models.UploadFile.objects.bulk_create(
        [models.UploadFile(upload=row, path=path, writing_ms=0) for path in sorted(paths)],
        update_conflicts=True,
        unique_fields=["upload", "path"],
        update_fields=["writing_ms"],
    )


@transaction.atomic
def _note(
    upload: models.Upload, parts: Mapping[str, FilePart], etags: Mapping[str, str], deletions: int
) -> bool:
    """False where files were deleted since there were so many deletions."""
    row = uploads.locked(upload)
    before = uploads.files_at(row, parts).values()
    if not shared_files.claim(row.source_url, etags, deletions):
        return False
    models.UploadFile.objects.bulk_create(
        [_shared(row, path, part, etags[part.entry.sha256]) for path, part in parts.items()],
        update_conflicts=True,
        unique_fields=["upload", "path"],
        update_fields=["part", "sha256", "size", "etag", "shared", "writing_ms"],
    )
    if freed := sum(file.own_bytes for file in before):
        models.Upload.objects.filter(id=row.id).update(bytes=F("bytes") - freed)
    if replaced := {file.sha256 for file in before} - {"", *etags}:
        shared_files.doom(row.source_url, replaced)
    return True


def _shared(row: models.Upload, path: str, part: FilePart, etag: str) -> models.UploadFile:
    document, entry = part.as_document() | {"path": path}, part.entry
    return models.UploadFile(
        upload=row, path=path, part=document, sha256=entry.sha256, size=entry.size, etag=etag, shared=True
    )
