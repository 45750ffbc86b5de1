"""Tells damaged bytes from a store that cannot be asked, and finds the damage of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

from platform_core.distribution.content.layout import is_by_digest, stored_path
from platform_core.distribution.content.manifest import Chunk, Manifest
from platform_core.errors import TrainmasterError
from trainmaster.store import Store


def is_damage(error: Exception, source_url: str) -> bool:
    """Whether the store has other bytes than were registered, or none. Not when it could not be asked at all."""
    if not isinstance(error, TrainmasterError):
        return False
    if error.code in ("verification_failed", "source_changed"):
        return True
    return bool(error.numbers.get("missing")) and _is_there(source_url)


def _is_there(source_url: str) -> bool:
    """A store in a folder whose disk is not mounted has nothing at all, not even the place of all checkpoints."""
    parts = urlsplit(source_url)
    place = Path(unquote(parts.path))
    of_kind = (
        place.parents[1:2] if is_by_digest(source_url) else place.parents[2:3]
    )  # kind/job/attempt/checkpoint
    return parts.scheme != "file" or any(folder.is_dir() for folder in of_kind)


def check_chunk(store: Store, manifest: Manifest, chunk: Chunk, etag: str = "") -> None:
    """Reads a chunk and compares it with its digest. Raises verification_failed, and what the store raises."""
    entry, digest = manifest.files[chunk.file], hashlib.sha256()
    for block in store.stream_range(stored_path(store.url, entry), chunk.offset, chunk.size, etag):
        digest.update(block)
    if digest.hexdigest() != chunk.sha256:
        raise TrainmasterError("verification_failed", path=f"{entry.path} (chunk {chunk.index})")
