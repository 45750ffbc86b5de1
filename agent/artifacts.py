"""Fetches files named by a manifest from the store, and uploads files to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from agent.job_files import JobPath
from agent.manifests import Manifests
from agent.uplink.checkpoint_files import PartUploader, description_of
from agent.uplink.uploads import Uploaded
from platform_core.distribution.content.layout import BY_DIGEST
from platform_core.distribution.content.manifest import (
    DEFAULT_CHUNK_SIZE,
    DEFAULT_PIECE_SIZE,
    FileDigester,
    join,
    to_json,
)
from platform_core.node.wanted import ArtifactReference
from trainmaster.store import open_store
from trainmaster.store.copying import fetch as fetch_files
from trainmaster.store.copying import lasting_etag

BLOCK = 1 << 20


def fetch(
    manifests: Manifests, artifact: ArtifactReference, into: Path, on_bytes: Callable[[int], None]
) -> None:
    """Every chunk is verified; files that are there and right are kept. `on_bytes` may raise to stop."""
    manifest = manifests.wait_for(artifact.manifest_id, lambda: on_bytes(0))
    fetch_files(manifest, artifact.source_url, into, on_bytes, artifact.etags_of(manifest))


def upload_with(parts: PartUploader, place: JobPath, kind: str, url: str) -> Uploaded:
    """As `upload`; a checkpoint of format 2 goes file by file to where its job shares files by their digests."""
    described = description_of(place) if kind == "checkpoint" else None
    if described is None:
        return upload(place, kind, url)
    of_job = f"{url.rsplit('/', 2)[0]}/{BY_DIGEST}"
    manifest = parts.upload(place, described, of_job)
    return Uploaded(manifest.id, to_json(manifest), of_job, part=described)


def upload(place: JobPath, kind: str, url: str) -> Uploaded:
    """A file or a folder under `url`, hashed while it is copied. Doing it again overwrites with the same."""
    store = open_store(url)
    parts, etags = [], {}
    names, left_out = place.files()
    for inner in names:
        name = inner or place.name.rpartition("/")[2]
        digester = FileDigester(name, DEFAULT_CHUNK_SIZE, DEFAULT_PIECE_SIZE)
        with (place / inner if inner else place).open() as file:
            size = os.fstat(file.fileno()).st_size
            store.write(name, _digested(file, digester, size), size)
        parts.append(digester.finish())
        etags[name] = lasting_etag(store, name)
    manifest = join(kind, parts, DEFAULT_PIECE_SIZE)
    paths = tuple(entry.path for entry in manifest.files)
    in_order = tuple(etags[path] for path in paths)
    return Uploaded(manifest.id, to_json(manifest), url, in_order, paths, left_out)


def _digested(file: FileIO, digester: FileDigester, size: int) -> Iterator[bytes]:
    """Yields and digests the first `size` bytes: a job may append to the file without end."""
    while size > 0 and (block := file.read(min(BLOCK, size))):
        size -= len(block)
        digester.feed(block)
        yield block
