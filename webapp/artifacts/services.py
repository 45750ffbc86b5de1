"""Bytes come in through uploads and leave a manifest; a manifest never changes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from django.conf import settings
from django.db import transaction

from platform_core.distribution.manifest import (
    FilePart,
    Manifest,
    as_document,
    from_json,
    join,
)
from platform_core.errors import TrainmasterError
from trainmaster.store import open_store
from trainmaster.store.copying import lasting_etag, source_url, write_file
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import models
from webapp.live import services as live
from webapp.live.identity import new_id, now_ms

UPLOAD_KINDS = ("code", "dataset", "model")


def register(
    document: Manifest, team: str, source_url: str, etags: Mapping[str, str] = {}
) -> models.Manifest:
    """Keep a manifest whose files already lie under `source_url`, by path with these etags.

    The same content twice is one row, at one place.
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
        # Its bytes were deleted, and now are here again; or they were written anew where they lay.
        if not made and row.source_url in ("", source_url):
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


def start_upload(actor: Actor, team: str, kind: str, name: str) -> models.Upload:
    permissions.require(actor, "artifact.upload", team)
    if kind not in UPLOAD_KINDS:
        raise TrainmasterError(
            "request_invalid", what="kind", why=f"{kind!r} is not one of {', '.join(UPLOAD_KINDS)}"
        )
    return models.Upload.objects.create(
        id=new_id("up"),
        kind=kind,
        team_id=team,
        user_id=accounts.user_key(actor.username),
        name=name[:120],
        created_ms=now_ms(),
    )


def receive_file(actor: Actor, upload_id: str, path: str, body: IO[bytes]) -> FilePart:
    """Stream one file into the store, hashing as it passes. The same path again replaces the earlier bytes."""
    upload = _own_upload(actor, upload_id)
    store = open_store(settings.STORE_URL)
    part = write_file(store, upload.kind, upload.id, path, _limited(body, path))
    etag = lasting_etag(store, f"{upload.kind}/{upload.id}/{path}")
    with transaction.atomic():
        locked = models.Upload.objects.select_for_update().get(id=upload.id)
        if locked.manifest_id is not None:
            raise TrainmasterError(
                "request_invalid", what=f"upload {upload_id}", why="it is complete already"
            )
        locked.files[path] = part.as_document() | {"etag": etag}
        locked.save(update_fields=["files"])
    return part


def complete_upload(actor: Actor, upload_id: str, expected_files: int | None = None) -> models.Manifest:
    """Make the manifest of everything received. Completing again gives the same manifest."""
    with transaction.atomic():
        upload = models.Upload.objects.select_for_update().get(id=_own_upload(actor, upload_id).id)
        if upload.manifest is not None:
            return upload.manifest
        missing = max(expected_files or 1, 1) - len(upload.files)
        if missing > 0:
            raise TrainmasterError("upload_incomplete", upload=upload_id, missing=missing)
        document = join(upload.kind, [FilePart.from_document(part) for part in upload.files.values()])
        source = source_url(settings.STORE_URL, upload.kind, upload.id)
        etags = {path: part.get("etag", "") for path, part in upload.files.items()}
        upload.manifest = register(document, upload.team_id, source, etags)
        upload.files = {}
        upload.save(update_fields=["manifest", "files"])
        return upload.manifest


def add_snapshot(
    actor: Actor, team: str, name: str, manifest_id: str, purpose: str
) -> models.DatasetSnapshot:
    """The next version of a dataset; the same manifest and purpose again give the same snapshot."""
    permissions.require(actor, "dataset.create", team)
    manifest = models.Manifest.objects.filter(id=manifest_id, teams=team, kind="dataset").first()
    if manifest is None:
        raise TrainmasterError("not_found", what=f"dataset manifest {manifest_id} in team {team}")
    if not purpose:
        raise TrainmasterError(
            "request_invalid", what="purpose", why="say what the data may be used for, e.g. 'training'"
        )
    with transaction.atomic():
        earlier = (
            models.DatasetSnapshot.objects.select_for_update()
            .filter(team=team, name=name)
            .order_by("-version")
        )
        newest = earlier.first()
        if newest is not None and newest.manifest_id == manifest_id and newest.purpose == purpose:
            return newest
        snapshot = models.DatasetSnapshot.objects.create(
            id=new_id("ds"),
            team_id=team,
            name=name,
            version=newest.version + 1 if newest else 1,
            purpose=purpose,
            manifest=manifest,
            created_ms=now_ms(),
            created_by_id=accounts.user_key(actor.username),
        )
        live.record(
            "SnapshotRegistered", f"dataset:{snapshot.id}", actor=actor.name, team=team,
            cause=f"{name} version {snapshot.version} for {purpose}, {manifest.files} files",
        )  # fmt: skip
        return snapshot


def _own_upload(actor: Actor, upload_id: str) -> models.Upload:
    upload = models.Upload.objects.select_related("user", "manifest").filter(id=upload_id).first()
    if upload is None or upload.user.username != actor.username:
        raise TrainmasterError("not_found", what=f"upload {upload_id}")
    permissions.require(actor, "artifact.upload", upload.team_id)
    return upload


def _limited(body: IO[bytes], path: str) -> Iterator[bytes]:
    """The body in blocks, up to the size limit of one file."""
    size, limit = 0, settings.UPLOAD_LIMIT_BYTES
    while block := body.read(1 << 20):
        size += len(block)
        if size > limit:
            raise TrainmasterError("too_large", what=path, size=f"over {limit} bytes", limit=limit)
        yield block
