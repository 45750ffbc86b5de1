"""A manifest is kept once, at one place; it never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction

from platform_core.distribution.content.manifest import Manifest, as_document, from_json
from webapp.artifacts import models, queries
from webapp.base.identity import now_ms


def register(
    document: Manifest,
    team: str,
    source_url: str,
    etags: Mapping[str, str] = {},
    *,
    uploaded: bool = False,
    shared_bytes: int = 0,
) -> models.Manifest:
    """Keep a manifest whose files already lie under `source_url`, by path with these etags; of `shared_bytes` an
    earlier one there has the files.

    The same content twice is one row, at one place: the first, or the newest upload, whose bytes the platform has just
    hashed on their way there, so that an upload of the right bytes repairs a damaged place. Where they lay in the store
    before, they can be read for a day more.
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
                "shared_bytes": shared_bytes,
                "files": len(document.files),
                "document": as_document(document),
                "created_ms": now_ms(),
            },
        )
        row = lock(document.id)
        row.teams.add(team)  # type: ignore[arg-type]  # the key of a team is its slug
        if made:
            return row
        # Its bytes were deleted, and now are here again; or they were written anew where they lay, or elsewhere.
        if row.source_url == source_url:
            row.etags = called
        elif not row.source_url or (uploaded and not row.moved_from):
            if row.source_url and queries.is_in_store(row.source_url):
                row.moved_from, row.moved_ms = row.source_url, now_ms()
            row.source_url, row.etags, row.shared_bytes = source_url, called, shared_bytes
        row.save(update_fields=["source_url", "etags", "shared_bytes", "moved_from", "moved_ms"])
    return row


def register_json(text: str, team: str, source_url: str, etags: Sequence[str] = ()) -> models.Manifest:
    """As an agent sends it; raises manifest_invalid unless it is sound. `etags` are in the order of its files."""
    document = from_json(text)
    paths = (entry.path for entry in document.files)
    return register(document, team, source_url, dict(zip(paths, etags, strict=False)))


def lock(manifest_id: str) -> models.Manifest:
    """Until the caller's transaction ends, nobody begins to use these bytes and nobody deletes them."""
    return models.Manifest.objects.select_for_update().get(id=manifest_id)
