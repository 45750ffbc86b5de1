"""Files in a folder that a job writes to.

Opened beneath the folder, part by part: never through a link, and only regular files. A job may put a link to
the agent's own files there, or a FIFO whose opening blocks for ever.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path, PurePosixPath

MOST_ENTRIES = 100_000  # of one folder with all below it
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class JobPath:
    """A file or folder beneath `folder`. `name` is relative, with forward slashes and without dots."""

    folder: Path
    name: str

    def __truediv__(self, name: str) -> JobPath:
        return JobPath(self.folder, f"{self.name}/{name}")

    def open(self, flags: int = os.O_RDONLY) -> FileIO:
        """The regular file. Raises OSError for everything else, and for a link anywhere beneath the folder."""
        with self._parent() as (parent, name):
            with contextlib.suppress(FileNotFoundError):  # O_CREAT makes a regular one
                _check_regular(os.stat(name, dir_fd=parent, follow_symlinks=False), self.name)
            descriptor = os.open(name, flags | _FILE, 0o644, dir_fd=parent)
        try:
            _check_regular(os.fstat(descriptor), self.name)
        except OSError:
            os.close(descriptor)
            raise
        return FileIO(descriptor, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "wb")

    def read(self, offset: int, size: int) -> bytes:
        """Nothing when there is no such regular file."""
        try:
            with self.open() as file:
                file.seek(offset)
                return file.read(size)
        except OSError:
            return b""

    def size(self) -> int:
        """0 when there is no such regular file."""
        try:
            with self.open() as file:
                return os.fstat(file.fileno()).st_size
        except OSError:
            return 0

    def tail(self, size: int) -> bytes:
        return self.read(max(0, self.size() - size), size)

    def append(self, data: bytes) -> None:
        with self.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
            file.write(data)

    def replace(self, data: bytes) -> None:
        """Writes the whole file at once; a link in its place is replaced, not followed."""
        with self._parent() as (parent, name):
            new = f".{name}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new, dir_fd=parent)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o644, dir_fd=parent)
            with FileIO(descriptor, "wb") as file:
                file.write(data)
            os.replace(new, name, src_dir_fd=parent, dst_dir_fd=parent)

    def exists(self) -> bool:
        """Whether it is a regular file or a folder."""
        try:
            with self._parent() as (parent, name):
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) or stat.S_ISDIR(mode)

    def entries(self, most: int) -> list[str]:
        """Names in this folder, in order, so many at most; none when it is no folder."""
        try:
            with self._opened_folder() as descriptor, os.scandir(descriptor) as scanned:
                return sorted(entry.name for entry in islice(scanned, most))
        except OSError:
            return []

    def files(self) -> tuple[list[str], int]:
        """Names of the regular files below this folder, in order of their parts, and how many links and other special
        files were left out. For a file its own name. Raises OSError where there is neither."""
        try:
            self.open().close()
            return [""], 0
        except IsADirectoryError:
            pass
        names: list[str] = []
        special = 0
        with self._opened_folder() as descriptor:
            for root, folders, files, inside in os.fwalk(".", dir_fd=descriptor):
                for name in (*folders, *files):
                    mode = os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode
                    if stat.S_ISREG(mode):
                        names.append((PurePosixPath(root) / name).as_posix())
                    elif not stat.S_ISDIR(mode):
                        special += 1
                if len(names) + special > MOST_ENTRIES:
                    raise OSError(errno.EFBIG, f"it has more than {MOST_ENTRIES:,} files")
        return sorted(names, key=lambda name: name.split("/")), special

    def named(self, prefix: str, most: int) -> list[str]:
        """The regular files below this folder whose name begins so, in order, among so many entries; none when it is
        no folder."""
        names: list[str] = []
        with contextlib.suppress(OSError), self._opened_folder() as descriptor:
            for root, folders, files, inside in os.fwalk(".", dir_fd=descriptor):
                names += [
                    (PurePosixPath(root) / name).as_posix()
                    for name in files
                    if name.startswith(prefix) and _is_regular(name, inside)
                ]
                most -= len(folders) + len(files)
                if most <= 0:
                    break
        return sorted(names)

    def remove(self) -> None:
        """With everything below. What cannot be removed stays."""
        with contextlib.suppress(OSError), self._parent() as (parent, name):
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent)

    @contextmanager
    def _opened_folder(self) -> Iterator[int]:
        with self._parent() as (parent, name):
            descriptor = os.open(name, _FOLDER, dir_fd=parent)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _parent(self) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds it, and its name in there."""
        *folders, name = self.name.split("/")
        if any(part in ("", ".", "..") for part in (*folders, name)):
            raise OSError(errno.EINVAL, "it is not a path beneath the folder of the attempt")
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folders:
                inner = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)


def _is_regular(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:  # it was removed meanwhile
        return False


def _check_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a link or a special file, not a regular one", name)
