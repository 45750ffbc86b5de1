"""Bytes named by a manifest, out of the store and into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent.manifests import Manifests
from agent.uplink.uploads import Uploaded
from agent.wanted import Artifact
from platform_core.distribution.manifest import (
    DEFAULT_CHUNK_SIZE,
    DEFAULT_PIECE_SIZE,
    FileDigester,
    join,
    to_json,
)
from platform_core.errors import TrainmasterError
from trainmaster.store import open_store
from trainmaster.store.copying import fetch as fetch_files
from trainmaster.store.copying import lasting_etag

BLOCK = 1 << 20


def fetch(manifests: Manifests, artifact: Artifact, into: Path, on_bytes: Callable[[int], None]) -> None:
    """Every chunk is verified; files that are there and right are kept. `on_bytes` may raise to stop."""
    manifest = manifests.wait_for(artifact.manifest_id, lambda: on_bytes(0))
    fetch_files(manifest, artifact.source_url, into, on_bytes, artifact.etags_of(manifest))


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
    of_kind = Path(unquote(parts.path)).parents[2:3]  # kind/job/attempt/checkpoint
    return parts.scheme != "file" or any(folder.is_dir() for folder in of_kind)


def upload(path: Path, kind: str, url: str) -> Uploaded:
    """A file or a folder under `url`, hashed while it is copied. Doing it again overwrites with the same."""
    store = open_store(url)
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    root = path.parent if path.is_file() else path
    parts, etags = [], {}
    for file in files:
        name = file.relative_to(root).as_posix()
        digester = FileDigester(name, DEFAULT_CHUNK_SIZE, DEFAULT_PIECE_SIZE)
        store.write(name, _digested(file, digester), file.stat().st_size)
        parts.append(digester.finish())
        etags[name] = lasting_etag(store, name)
    manifest = join(kind, parts, DEFAULT_PIECE_SIZE)
    in_order = tuple(etags[entry.path] for entry in manifest.files)
    return Uploaded(manifest.id, to_json(manifest), url, in_order)


def _digested(path: Path, digester: FileDigester) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digester.feed(block)
            yield block
