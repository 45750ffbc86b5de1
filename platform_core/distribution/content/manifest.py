"""Manifests: files, chunks (the unit of scheduling and progress) and pieces (the unit of verification).

Every digest is the plain SHA-256 of its bytes: `sha256sum` can check a file or a chunk. All digests are made in one
pass. Each byte belongs to a piece, a chunk and a file, and their hashers are shared while they cover the same bytes:
the first chunk of a file shares the hasher of the file, the first piece of a chunk that of the chunk. So a file of one
piece is hashed once, one of one chunk at most twice, a large one three times, when it is registered. Receivers hash
only the pieces, and the whole file at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from platform_core.distribution.content.tiling import MIB, check, check_path, check_sizes, invalid

DEFAULT_CHUNK_SIZE = 64 * MIB
DEFAULT_PIECE_SIZE = 4 * MIB
FORMAT = 1


@dataclass(frozen=True, slots=True)
class FileEntry:
    path: str
    size: int
    sha256: str
    executable: bool = (
        False  # left out of documents where it is not set, so that manifests made before keep their ids
    )

    def as_document(self) -> dict[str, Any]:
        marked = {"executable": True} if self.executable else {}
        return {"path": self.path, "size": self.size, "sha256": self.sha256, **marked}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> FileEntry:
        executable = document.get("executable", False)
        if not isinstance(executable, bool):
            raise invalid(
                f"{document['path']!r:.200} is executable: {executable!r:.40}, neither true nor false"
            )
        return FileEntry(document["path"], document["size"], document["sha256"], executable)


@dataclass(frozen=True, slots=True)
class Chunk:
    """`file` is the index of its file in the manifest; `pieces` are the digests of its pieces in order."""

    index: int
    file: int
    offset: int
    size: int
    sha256: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """`index` counts within the chunk; `offset` counts from the start of the file."""

    chunk: int
    index: int
    offset: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    id: str
    kind: str
    files: tuple[FileEntry, ...]
    chunks: tuple[Chunk, ...]
    piece_size: int
    total_bytes: int

    def pieces(self, chunk: Chunk) -> Iterator[Piece]:
        for index, sha256 in enumerate(chunk.pieces):
            start = index * self.piece_size
            size = min(self.piece_size, chunk.size - start)
            yield Piece(chunk.index, index, chunk.offset + start, size, sha256)

    def piece(self, chunk: Chunk, index: int) -> Piece:
        start = index * self.piece_size
        size = min(self.piece_size, chunk.size - start)
        return Piece(chunk.index, index, chunk.offset + start, size, chunk.pieces[index])


def assemble(kind: str, files: tuple[FileEntry, ...], chunks: tuple[Chunk, ...], piece_size: int) -> Manifest:
    """The manifest of these parts, checked, and named by its content."""
    total = sum(entry.size for entry in files)
    manifest = Manifest("", kind, files, chunks, piece_size, total)
    check(manifest)
    return Manifest(_identity(manifest), kind, files, chunks, piece_size, total)


def as_document(manifest: Manifest) -> dict[str, Any]:
    """Plain dictionaries and lists, for a JSON column."""
    return {"id": manifest.id, **_content(manifest)}


def to_json(manifest: Manifest) -> str:
    return json.dumps(as_document(manifest), sort_keys=True, separators=(",", ":"))


def from_json(text: str | bytes) -> Manifest:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f"it is not JSON ({error})") from error
    return from_document(document)


def from_document(document: Mapping[str, Any]) -> Manifest:
    """Refuses absolute paths, '..', duplicates, gaps, overlaps and an id that is not of this content."""
    try:
        if document["format"] != FORMAT:
            raise invalid(f"its format is {document['format']}, this version reads {FORMAT}")
        files = tuple(map(FileEntry.from_document, document["files"]))
        chunks = tuple(
            Chunk(index, c["file"], c["offset"], c["size"], c["sha256"], tuple(c["pieces"]))
            for index, c in enumerate(document["chunks"])
        )
        parts = Manifest(
            document["id"], document["kind"], files, chunks, document["piece_size"], document["total_bytes"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise invalid(f"a field is missing or of the wrong type ({error})") from error
    check(parts)
    if parts.id != (expected := _identity(parts)):
        raise invalid(f"its id is {parts.id}, its content says {expected}")
    return parts


def _content(manifest: Manifest) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": manifest.kind,
        "piece_size": manifest.piece_size,
        "total_bytes": manifest.total_bytes,
        "files": [entry.as_document() for entry in manifest.files],
        "chunks": [
            {"file": c.file, "offset": c.offset, "size": c.size, "sha256": c.sha256, "pieces": list(c.pieces)}
            for c in manifest.chunks
        ],
    }


def _identity(manifest: Manifest) -> str:
    canonical = json.dumps(_content(manifest), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "man-" + hashlib.sha256(canonical.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file's part of a manifest; an upload stores it until all files have arrived."""

    entry: FileEntry
    chunks: tuple[Chunk, ...]  # numbered within the file
    piece_size: int

    def as_document(self) -> dict[str, Any]:
        chunks = [{"size": c.size, "sha256": c.sha256, "pieces": list(c.pieces)} for c in self.chunks]
        return {**self.entry.as_document(), "piece_size": self.piece_size, "chunks": chunks}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> FilePart:
        chunks, offset = [], 0
        for index, chunk in enumerate(document["chunks"]):
            chunks.append(Chunk(index, 0, offset, chunk["size"], chunk["sha256"], tuple(chunk["pieces"])))
            offset += chunk["size"]
        return FilePart(FileEntry.from_document(document), tuple(chunks), document["piece_size"])


class FileDigester:
    """Feed the bytes of one file in order, then `finish`."""

    def __init__(
        self, path: str, chunk_size: int = DEFAULT_CHUNK_SIZE, piece_size: int = DEFAULT_PIECE_SIZE
    ) -> None:
        check_sizes(chunk_size, piece_size)
        self.path = check_path(path)
        self.size = 0
        self._chunk_size, self._piece_size = chunk_size, piece_size
        self._chunks: list[Chunk] = []
        self._pieces: list[str] = []
        self._chunk_start = 0
        self._piece_start = 0
        # One object under several names wherever the bytes covered are the same so far.
        self._file = self._chunk = self._piece = hashlib.sha256()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            if self.size - self._piece_start == self._piece_size:
                self._close_piece()
                self._open_next()
            taken = view[: self._piece_size - (self.size - self._piece_start)]
            self._file.update(taken)
            if self._chunk is not self._file:
                self._chunk.update(taken)
            if self._piece is not self._chunk:
                self._piece.update(taken)
            self.size += len(taken)
            view = view[len(taken) :]

    def digest(self) -> str:
        """SHA-256 of what was fed so far."""
        return self._file.hexdigest()

    def finish(self) -> FilePart:
        if self.size > self._piece_start:
            self._close_piece()
            self._close_chunk()
        entry = FileEntry(self.path, self.size, self._file.hexdigest())
        return FilePart(entry, tuple(self._chunks), self._piece_size)

    def _close_piece(self) -> None:
        self._pieces.append(self._piece.hexdigest())
        self._piece_start = self.size

    def _close_chunk(self) -> None:
        start = self._chunk_start
        digest = self._chunk.hexdigest()
        self._chunks.append(
            Chunk(len(self._chunks), 0, start, self.size - start, digest, tuple(self._pieces))
        )
        self._pieces = []
        self._chunk_start = self.size

    def _open_next(self) -> None:
        if self.size - self._chunk_start == self._chunk_size:
            self._close_chunk()
            self._chunk = self._piece = hashlib.sha256()
        else:
            self._piece = hashlib.sha256()


class ManifestBuilder:
    """`feed(path, bytes)` file after file (b"" for an empty one), or `add` finished parts, then `finish`."""

    def __init__(
        self, kind: str, chunk_size: int = DEFAULT_CHUNK_SIZE, piece_size: int = DEFAULT_PIECE_SIZE
    ) -> None:
        check_sizes(chunk_size, piece_size)
        self._kind, self._chunk_size, self._piece_size = kind, chunk_size, piece_size
        self._parts: list[FilePart] = []
        self._open: FileDigester | None = None

    def feed(self, path: str, data: bytes | bytearray | memoryview) -> None:
        if self._open is None or self._open.path != path:
            self._close()
            self._open = FileDigester(path, self._chunk_size, self._piece_size)
        self._open.feed(data)

    def add(self, part: FilePart) -> None:
        self._close()
        self._parts.append(part)

    def finish(self) -> Manifest:
        self._close()
        return join(self._kind, self._parts, self._piece_size)

    def _close(self) -> None:
        if self._open is not None:
            self._parts.append(self._open.finish())
            self._open = None


def join(kind: str, parts: Iterable[FilePart], piece_size: int = DEFAULT_PIECE_SIZE) -> Manifest:
    """The manifest of these files in order of their paths, so that equal files give an equal id."""
    ordered = sorted(parts, key=lambda part: part.entry.path)
    chunks: list[Chunk] = []
    for number, part in enumerate(ordered):
        if part.piece_size != piece_size:
            why = f"{part.entry.path} has pieces of {part.piece_size} bytes, the manifest of {piece_size}"
            raise invalid(why)
        first = len(chunks)
        chunks.extend(
            Chunk(first + c.index, number, c.offset, c.size, c.sha256, c.pieces) for c in part.chunks
        )
    return assemble(kind, tuple(part.entry for part in ordered), tuple(chunks), piece_size)


def split(manifest: Manifest) -> list[FilePart]:
    """The inverse of `join`."""
    chunks: dict[int, list[Chunk]] = {}
    for chunk in sorted(manifest.chunks, key=lambda chunk: chunk.offset):
        own = chunks.setdefault(chunk.file, [])
        own.append(replace(chunk, index=len(own), file=0))
    return [
        FilePart(entry, tuple(chunks.get(number, ())), manifest.piece_size)
        for number, entry in enumerate(manifest.files)
    ]
