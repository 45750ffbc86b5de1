"""Archives taken apart. Runs in a reader process alone: an archive of a few bytes may unpack for hours."""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any

from platform_core.units import format_bytes

_SKIPPED = {"__MACOSX", "__pycache__", ".git", ".venv", "node_modules"}
_OWNER_RUNS = 0o100  # of the mode of a file; in a zip file of Windows no file has one
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, NotImplementedError, RuntimeError)


def unpack(
    _: bytes, *, path: str, into: str, most_files: int, most_bytes: int
) -> list[tuple[str, int, bool]]:
    """Writes the contents of the files one after the other into a file; returns their paths and sizes, and whether
    their owner may run them.

    Raises ValueError for what is no archive, and for one with more files or bytes.
    """
    found: list[tuple[str, int, bool]] = []
    left = most_bytes
    try:
        with open(path, "rb") as archive, open(into, "wb") as contents:
            for name, body, is_program in _files(archive):
                if len(found) == most_files:
                    raise ValueError(
                        f"it has more than {most_files:,} files; leave out data and environments"
                    )
                size = _copied(body, contents, left)
                if size > left:
                    limit = format_bytes(most_bytes)
                    raise ValueError(f"it unpacks to more than {limit}; upload data as a dataset")
                left -= size
                found.append((name, size, is_program))
    except _BROKEN as error:
        raise ValueError("it is no zip or tar archive that can be read") from error
    return found


def _copied(body: IO[bytes], contents: IO[bytes], most: int) -> int:
    """How many bytes it has; one more than `most` says that it has more."""
    size = 0
    while size <= most and (block := body.read(min(1 << 20, most + 1 - size))):
        contents.write(block)
        size += len(block)
    return size


def _files(archive: IO[bytes]) -> Iterator[tuple[str, IO[bytes], bool]]:
    """Path and body of each file, and whether it is a program; links and what tools leave behind are skipped."""
    is_zip = zipfile.is_zipfile(archive)
    archive.seek(0)
    for path, body, is_program in _zipped(archive) if is_zip else _tarred(archive):
        if not _SKIPPED.intersection(PurePosixPath(path).parts) and not path.endswith((".pyc", ".DS_Store")):
            yield path.removeprefix("./"), body, is_program


def _zipped(archive: IO[bytes]) -> Iterator[tuple[str, IO[bytes], bool]]:
    with zipfile.ZipFile(archive) as unpacked:
        for entry in unpacked.infolist():
            is_link = entry.external_attr >> 28 == 0o12
            if not entry.is_dir() and not is_link:
                with unpacked.open(entry) as body:
                    yield entry.filename, body, bool(entry.external_attr >> 16 & _OWNER_RUNS)


def _tarred(archive: IO[bytes]) -> Iterator[tuple[str, Any, bool]]:
    with tarfile.open(fileobj=archive, mode="r:*") as unpacked:
        for entry in unpacked:
            body = unpacked.extractfile(entry) if entry.isfile() else None
            if body is not None:
                yield entry.name, body, bool(entry.mode & _OWNER_RUNS)
