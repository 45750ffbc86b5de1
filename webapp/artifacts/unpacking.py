"""Archives taken apart. Runs in a reader process alone: an archive of a few bytes may unpack for hours."""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any

from platform_core.units import format_bytes

_SKIPPED = {"__MACOSX", "__pycache__", ".git", ".venv", "node_modules"}
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, NotImplementedError, RuntimeError)


def unpack(_: bytes, *, path: str, into: str, most_files: int, most_bytes: int) -> list[tuple[str, int]]:
    """Writes the contents of the files one after the other into a file; returns their paths and sizes.

    Raises ValueError for what is no archive, and for one with more files or bytes.
    """
    found: list[tuple[str, int]] = []
    left = most_bytes
    try:
        with open(path, "rb") as archive, open(into, "wb") as contents:
            for name, body in _files(archive):
                if len(found) == most_files:
                    raise ValueError(
                        f"it has more than {most_files:,} files; leave out data and environments"
                    )
                size = _copied(body, contents, left)
                if size > left:
                    limit = format_bytes(most_bytes)
                    raise ValueError(f"it unpacks to more than {limit}; upload data as a dataset")
                left -= size
                found.append((name, size))
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


def _files(archive: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Path and body of each file; links and what tools leave behind are skipped."""
    is_zip = zipfile.is_zipfile(archive)
    archive.seek(0)
    for path, body in _zipped(archive) if is_zip else _tarred(archive):
        if not _SKIPPED.intersection(PurePosixPath(path).parts) and not path.endswith((".pyc", ".DS_Store")):
            yield path.removeprefix("./"), body


def _zipped(archive: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as unpacked:
        for entry in unpacked.infolist():
            is_link = entry.external_attr >> 28 == 0o12
            if not entry.is_dir() and not is_link:
                with unpacked.open(entry) as body:
                    yield entry.filename, body


def _tarred(archive: IO[bytes]) -> Iterator[tuple[str, Any]]:
    with tarfile.open(fileobj=archive, mode="r:*") as unpacked:
        for entry in unpacked:
            body = unpacked.extractfile(entry) if entry.isfile() else None
            if body is not None:
                yield entry.name, body
