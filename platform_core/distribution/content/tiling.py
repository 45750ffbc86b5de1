"""The rules of a manifest: relative paths, chunks that tile their files, pieces that tile their chunks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from platform_core.errors import TrainmasterError

if TYPE_CHECKING:
    from platform_core.distribution.content.manifest import FileEntry, Manifest

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MAX_CHUNK_SIZE = GIB
MAX_PIECE_SIZE = 64 * MIB  # a piece travels as one message and is held in memory
# What file systems and S3 take, with room for the folder before it.
MAX_PART_BYTES, MAX_PATH_BYTES = 255, 1000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"(?:^|/)([A-Za-z]:)")  # of Windows, where it leaves the folder wherever it stands
_DIGEST = re.compile(r"[0-9a-f]{64}")
KINDS = frozenset({"code", "dataset", "checkpoint", "model", "logs", "artifact"})


def check(manifest: Manifest) -> None:
    """Raises manifest_invalid unless the chunks tile the files and the pieces tile the chunks."""
    if manifest.kind not in KINDS:
        raise invalid(f"kind {manifest.kind!r} is not one of {', '.join(sorted(KINDS))}")
    if not _is_count(manifest.piece_size) or not 1 <= manifest.piece_size <= MAX_PIECE_SIZE:
        raise invalid(f"the piece size is {manifest.piece_size}, it must be 1 to {MAX_PIECE_SIZE} bytes")
    _check_paths(manifest.files)
    for entry in manifest.files:
        if not _is_count(entry.size):
            raise invalid(f"{entry.path} has size {entry.size!r}")
        _check_digest(entry.sha256, entry.path)
    _check_chunks(manifest)
    if manifest.total_bytes != (total := sum(entry.size for entry in manifest.files)):
        raise invalid(f"total_bytes is {manifest.total_bytes}, the files have {total}")


def check_path(path: object) -> str:
    """A relative path that stays below its folder on any system."""
    if not isinstance(path, str) or not path:
        raise invalid(f"{path!r} is not a path")
    if path.startswith("/") or "\\" in path:
        raise invalid(f"path {path!r} must be relative, with forward slashes")
    if _CONTROL.search(path):
        raise invalid(f"path {path!r} has a control character, such as an end of line")
    if drive := _DRIVE.search(path):
        raise invalid(f"path {path!r} has a part that begins like a drive ({drive[1]})")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise invalid(f"path {path!r} has an empty, '.' or '..' part")
    try:
        longest = max(len(part.encode()) for part in path.split("/"))
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise invalid(f"path {path!r} is not Unicode text") from error
    if longest > MAX_PART_BYTES or size > MAX_PATH_BYTES:
        limits = f"the limits are {MAX_PATH_BYTES}, and {MAX_PART_BYTES} for each part"
        raise invalid(f"path {path[:40]!r}… has {size} bytes; {limits}")
    return path


def _check_paths(files: tuple[FileEntry, ...]) -> None:
    paths = [check_path(entry.path) for entry in files]
    known = set(paths)
    if len(known) != len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise invalid(f"{twice} is there twice")
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if (folder := "/".join(parts[:depth])) in known:
                raise invalid(f"{folder} is a file and also the folder of {path}")


def _check_chunks(manifest: Manifest) -> None:
    covered = [0] * len(manifest.files)
    last_file = 0
    for index, chunk in enumerate(manifest.chunks):
        name = f"chunk {index}"
        if not _is_count(chunk.file) or not last_file <= chunk.file < len(manifest.files):
            raise invalid(f"{name} belongs to file {chunk.file!r}, out of order or out of range")
        last_file = chunk.file
        if chunk.offset != covered[chunk.file]:
            raise invalid(f"{name} begins at {chunk.offset}, bytes up to {covered[chunk.file]} are covered")
        if not _is_count(chunk.size) or not 1 <= chunk.size <= MAX_CHUNK_SIZE:
            raise invalid(f"{name} has size {chunk.size!r}, it must be 1 to {MAX_CHUNK_SIZE} bytes")
        expected = -(-chunk.size // manifest.piece_size)
        if len(chunk.pieces) != expected:
            raise invalid(f"{name} has {len(chunk.pieces)} pieces, its size needs {expected}")
        for digest in (chunk.sha256, *chunk.pieces):
            _check_digest(digest, name)
        covered[chunk.file] += chunk.size
    for entry, end in zip(manifest.files, covered, strict=True):
        if end != entry.size:
            raise invalid(f"{entry.path} has {entry.size} bytes, its chunks cover {end}")


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _check_digest(digest: object, what: str) -> None:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise invalid(f"{what} has {digest!r} where a SHA-256 in hexadecimal belongs")


def invalid(why: str) -> TrainmasterError:
    return TrainmasterError("manifest_invalid", why=why)


def check_sizes(chunk_size: int, piece_size: int) -> None:
    if not 1 <= piece_size <= MAX_PIECE_SIZE:
        raise ValueError(f"the piece size is {piece_size}, it must be 1 to {MAX_PIECE_SIZE} bytes")
    if not piece_size <= chunk_size <= MAX_CHUNK_SIZE or chunk_size % piece_size:
        why = f"a multiple of the piece size {piece_size} up to {MAX_CHUNK_SIZE} bytes"
        raise ValueError(f"the chunk size is {chunk_size}, it must be {why}")
