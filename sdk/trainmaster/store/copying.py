"""Bytes into a store with their manifest, and out of it with every chunk checked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import BinaryIO, NamedTuple

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import (
    DEFAULT_CHUNK_SIZE,
    DEFAULT_PIECE_SIZE,
    Chunk,
    FileDigester,
    FilePart,
    Manifest,
    join,
    to_json,
)
from platform_core.distribution.planning.sizes import Sizes
from platform_core.errors import TrainmasterError
from trainmaster.store import open_store
from trainmaster.store.address import parse, url_of
from trainmaster.store.file import disk_error
from trainmaster.store.port import BLOCK, Entry, Store, shown, telling_since

_PARALLEL = 4
Source = Iterable[bytes] | BinaryIO
Read = Callable[[str, Chunk], Iterable[bytes]]


def source_url(store_url: str, kind: str, upload_id: str) -> str:
    """Under which the files of an upload lie."""
    return f"{store_url.rstrip('/')}/{kind}/{upload_id}"


def copy_in(
    store: Store,
    kind: str,
    upload_id: str,
    files: Iterable[tuple[str, Source]],
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    piece_size: int = DEFAULT_PIECE_SIZE,
) -> Manifest:
    """Stores the files under `source_url` and their manifest beside, in one pass over each."""
    folder = f"{kind}/{upload_id}"
    parts = [
        write_file(store, f"{folder}/{path}", path, data, chunk_size, piece_size) for path, data in files
    ]
    manifest = join(kind, parts, piece_size)
    write_manifest(store, manifest)
    return manifest


def write_file(
    store: Store,
    place: str,
    path: str,
    data: Source,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    piece_size: int = DEFAULT_PIECE_SIZE,
) -> FilePart:
    """One file, `path` in its manifest, to this place of the store; `manifest.join` makes the manifest of all."""
    digester = FileDigester(path, chunk_size, piece_size)
    store.write(place, _digested(digester, data))
    return digester.finish()


def write_manifest(store: Store, manifest: Manifest) -> None:
    store.write(f"manifests/{manifest.id}.json", [to_json(manifest).encode()])


def lasting_etag(store: Store, path: str) -> str:
    """By which others know later that a file is still this one; "" where none is the same for all who look."""
    return store.etag(path) if store.same_everywhere else ""


class Described(NamedTuple):
    """What lies somewhere; `etags` are `lasting_etag` by path."""

    manifest: Manifest
    source_url: str
    etags: Mapping[str, str]


def describe(
    url: str,
    kind: str,
    sizes: Callable[[int], Sizes] = lambda _: Sizes(DEFAULT_CHUNK_SIZE, DEFAULT_PIECE_SIZE),
    on_bytes: Callable[[int], None] = lambda _: None,
    check: Callable[[str], object] = lambda _: None,
) -> Described:
    """What lies at this URL: a file, or all files of a folder. Reads everything once; nothing is copied.

    `sizes` says how so many bytes are cut, `on_bytes` is told of progress and
    may raise to stop. `check` is given the real place of each file before any is read, and may raise.
    """
    store, base, entries = _entries(url)
    for entry in entries:
        with _naming(entry.path):
            check(store.real(entry.path))
    cut = sizes(sum(entry.size for entry in entries))
    parts, etags = [], {}
    for entry in entries:
        digester = FileDigester(entry.path, cut.chunk, cut.piece)
        # A file that changes under our hands would get a manifest of a mixture.
        etag = store.etag(entry.path)
        with telling_since("while it was read"):
            for block in store.stream_range(entry.path, 0, entry.size, etag):
                digester.feed(block)
                on_bytes(len(block))
        parts.append(digester.finish())
        etags[entry.path] = etag if store.same_everywhere else ""
    return Described(join(kind, parts, cut.piece), base, etags)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except TrainmasterError as error:
        raise TrainmasterError(error.code, f"The file {path}: {error.sentence}") from error


def _entries(url: str) -> tuple[Store, str, list[Entry]]:
    address = parse(url)
    if address.parts:
        base, name = url_of(replace(address, parts=address.parts[:-1])), address.parts[-1]
        store = open_store(base)
        if store.exists(name):
            return store, base, [Entry(name, store.size(name))]
    store = open_store(url)
    entries = [] if url.startswith("http") else list(store.list())
    if not entries:
        raise TrainmasterError("source_unavailable", source=shown(url), why="there is no such file or folder")
    return store, url.rstrip("/"), entries


PROGRAM_MODE = 0o755


def fetch(
    manifest: Manifest,
    url: str,
    dest: Path,
    on_bytes: Callable[[int], None] = lambda _: None,
    etags: Mapping[str, str] = {},
    only: Collection[str] | None = None,
) -> None:
    """All files of the manifest, or `only` these, into the folder `dest`, every chunk checked before its file appears.

    Files that are there with the right digest are kept, so a second call after a failure goes on. `on_bytes`
    is called from several threads with the bytes just verified and may raise to stop. `etags` by path: what was
    replaced since is source_changed. Raises that, source_unavailable, verification_failed or disk_full; then no
    unfinished file stays behind.
    """
    store = open_store(url)
    dest.mkdir(parents=True, exist_ok=True)
    missing = [
        number
        for number, entry in enumerate(manifest.files)
        if (only is None or entry.path in only) and not _is_there(dest, entry.path, entry.sha256)
    ]
    unfinished = {number: _unfinished(dest, manifest, number) for number in missing}
    try:
        for number, path in unfinished.items():
            with _clear_errors(path), path.open("wb") as file:
                file.truncate(manifest.files[number].size)
        chunks = [chunk for chunk in manifest.chunks if chunk.file in unfinished]
        places = {entry.path: stored_path(url, entry) for entry in manifest.files}
        read = partial(_pinned, store, etags, places)
        _fetch_chunks(chunks, manifest, read, unfinished, on_bytes)
        for number, path in unfinished.items():
            target = dest / manifest.files[number].path
            with _clear_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
        for entry in manifest.files:
            if entry.executable and (only is None or entry.path in only):
                (dest / entry.path).chmod(PROGRAM_MODE)
    finally:
        for path in unfinished.values():
            path.unlink(missing_ok=True)


def _pinned(
    store: Store, etags: Mapping[str, str], places: Mapping[str, str], path: str, chunk: Chunk
) -> Iterator[bytes]:
    with telling_since("since it was registered"):
        yield from store.stream_range(places[path], chunk.offset, chunk.size, etags.get(path, ""))


def _fetch_chunks(
    chunks: list[Chunk],
    manifest: Manifest,
    read: Read,
    unfinished: dict[int, Path],
    on_bytes: Callable[[int], None],
) -> None:
    stop = Event()

    def one(chunk: Chunk) -> None:
        if not stop.is_set():
            _fetch_chunk(read, manifest.files[chunk.file].path, chunk, unfinished[chunk.file], stop)
            on_bytes(chunk.size)

    with ThreadPoolExecutor(_PARALLEL, "fetch") as pool:
        futures = [pool.submit(one, chunk) for chunk in chunks]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for future in done:
        future.result()


def _fetch_chunk(read: Read, path: str, chunk: Chunk, target: Path, stop: Event) -> None:
    digest = hashlib.sha256()
    with target.open("r+b", buffering=0) as file:
        file.seek(chunk.offset)
        for block in read(path, chunk):
            if stop.is_set():
                return
            digest.update(block)
            with _clear_errors(target, chunk.size):
                _write_all(file.fileno(), block)
    if digest.hexdigest() != chunk.sha256:
        raise TrainmasterError("verification_failed", path=f"{path} (chunk {chunk.index})")


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _digested(digester: FileDigester, data: Source) -> Iterator[bytes]:
    for block in _blocks(data):
        digester.feed(block)
        yield block


def _blocks(data: Source) -> Iterator[bytes]:
    read = getattr(data, "read", None)
    if read is None:
        yield from data
        return
    while block := read(BLOCK):
        yield block


def _is_there(dest: Path, path: str, sha256: str) -> bool:
    try:
        with (dest / path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _unfinished(dest: Path, manifest: Manifest, number: int) -> Path:
    return dest / f".unfinished-{manifest.id}-{number}"


@contextmanager
def _clear_errors(target: Path, needed: int = 0) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(target, error, needed) from error
