"""A zip or tar archive of code that the browser sends, unpacked into a code bundle."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from platform_core.errors import TrainmasterError
from platform_core.units import GIB
from trainmaster.reader.pool import Limits, Stopped, Unreadable, read
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import services

_MOST_FILES = 5_000
_MOST_BYTES = GIB  # unpacked: a small archive may hold very much
_LIMITS = Limits(cpu_seconds=60, wall_seconds=180)


def upload(
    actor: Actor, team: str, name: str, archive: IO[bytes] | Path, *, keep_folder: bool = False
) -> str:
    """Returns the manifest id of the bundle. A single folder that holds everything is left out of the paths, or kept.

    Raises TrainmasterError of request_invalid for what is no archive of code, file_unreadable for one that takes
    too much to be unpacked, and of what an upload raises.
    """
    permissions.require(actor, "artifact.upload", team)
    with _on_disk(archive) as path, tempfile.NamedTemporaryFile(prefix="trainmaster-unpacked-") as contents:
        files = _unpacked(name, path, contents.name)
        root = "" if keep_folder else _single_folder([path for path, _, _ in files])
        begun = services.start_upload(actor, team, "code", name)
        for file, size, _ in files:
            body = cast(IO[bytes], _Part(contents, size))
            services.receive_file(actor, begun.id, file.removeprefix(root), body)
    executable = [file.removeprefix(root) for file, _, is_program in files if is_program]
    return services.complete_upload(actor, begun.id, len(files), executable).id


def _unpacked(name: str, path: Path, into: str) -> list[tuple[str, int, bool]]:
    try:
        found: list[tuple[str, int, bool]] = read(
            "webapp.artifacts.unpacking:unpack",
            f"The archive {name}",
            limits=_LIMITS,
            path=str(path),
            into=into,
            most_files=_MOST_FILES,
            most_bytes=_MOST_BYTES,
        )
    except Stopped:
        raise
    except Unreadable as error:
        raise _refused(name, error.why) from error
    if not found:
        raise _refused(name, "it has no files")
    return found


@contextlib.contextmanager
def _on_disk(archive: IO[bytes] | Path) -> Iterator[Path]:
    """Where a reader process finds it."""
    if isinstance(archive, Path):
        yield archive
        return
    with tempfile.NamedTemporaryFile(prefix="trainmaster-archive-") as copy:
        archive.seek(0)
        shutil.copyfileobj(archive, copy)
        copy.flush()
        yield Path(copy.name)


class _Part:
    """The next `size` bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        block = self._file.read(min(size, self._left))
        self._left -= len(block)
        return block


def _single_folder(paths: list[str]) -> str:
    first = paths[0].partition("/")[0] + "/"
    return first if first != "../" and all(path.startswith(first) for path in paths) else ""


def _refused(name: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=name, why=why)
