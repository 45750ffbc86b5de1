"""A zip or tar archive of code that the browser sends, unpacked into a code bundle."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO

from platform_core.errors import TrainmasterError
from platform_core.units import GIB, format_bytes
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import services

_SKIPPED = {"__MACOSX", "__pycache__", ".git", ".venv", "node_modules"}
_MOST_FILES = 5_000
_MOST_BYTES = GIB  # unpacked: a small archive may hold very much


def upload(actor: Actor, team: str, name: str, archive: IO[bytes], *, keep_folder: bool = False) -> str:
    """Returns the manifest id of the bundle. A single folder that holds everything is left out of the paths, or kept.

    Raises TrainmasterError of request_invalid for what is no archive of code, and of what an upload raises.
    """
    permissions.require(actor, "artifact.upload", team)
    try:
        paths = _checked(archive, name)
        root = "" if keep_folder else _single_folder(paths)
        begun = services.start_upload(actor, team, "code", name)
        for path, _, body in _files(archive):
            services.receive_file(actor, begun.id, path.removeprefix(root), body)
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        EOFError,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise _refused(name, "it is no zip or tar archive that can be read") from error
    return services.complete_upload(actor, begun.id, len(paths)).id


def _checked(archive: IO[bytes], name: str) -> list[str]:
    """The paths of the files, before any of them is written."""
    paths: list[str] = []
    total = 0
    for path, size, _ in _files(archive):
        paths.append(path)
        total += size
        if len(paths) > _MOST_FILES:
            raise _refused(name, f"it has more than {_MOST_FILES:,} files; leave out data and environments")
        if total > _MOST_BYTES:
            limit = format_bytes(_MOST_BYTES)
            raise _refused(name, f"it unpacks to more than {limit}; upload data as a dataset")
    if not paths:
        raise _refused(name, "it has no files")
    return paths


def _files(archive: IO[bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Path, size and body of each file; links and what tools leave behind are skipped."""
    archive.seek(0)
    is_zip = zipfile.is_zipfile(archive)
    archive.seek(0)
    for path, size, body in _zipped(archive) if is_zip else _tarred(archive):
        if not _SKIPPED.intersection(PurePosixPath(path).parts) and not path.endswith((".pyc", ".DS_Store")):
            yield path.removeprefix("./"), size, body


def _zipped(archive: IO[bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    with zipfile.ZipFile(archive) as unpacked:
        for entry in unpacked.infolist():
            is_link = entry.external_attr >> 28 == 0o12
            if not entry.is_dir() and not is_link:
                with unpacked.open(entry) as body:
                    yield entry.filename, entry.file_size, body


def _tarred(archive: IO[bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    with tarfile.open(fileobj=archive, mode="r:*") as unpacked:
        for entry in unpacked:
            body = unpacked.extractfile(entry) if entry.isfile() else None
            if body is not None:
                yield entry.name, entry.size, body


def _single_folder(paths: list[str]) -> str:
    first = paths[0].partition("/")[0] + "/"
    return first if first != "../" and all(path.startswith(first) for path in paths) else ""


def _refused(name: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=name, why=why)
