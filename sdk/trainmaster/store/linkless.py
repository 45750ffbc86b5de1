"""A folder as a store that follows no link, for folders into which other people write."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from platform_core.errors import TrainmasterError
from trainmaster.store.file import FileStore, clear_errors, etag_of
from trainmaster.store.port import BLOCK, Entry, changed, unavailable, whole

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LinklessFileStore(FileStore):
    """Reads regular files only, and no path through a link, whenever the link is made. It is read only in use."""

    def stream_range(
        self, path: str, offset: int, size: int, etag: str = "", block: int = BLOCK
    ) -> Iterator[bytes]:
        target = self._path(path)
        with clear_errors(target), os.fdopen(_open(target), "rb") as file:
            if etag and etag != (now := etag_of(os.fstat(file.fileno()))):
                raise changed(str(target), etag, now)
            file.seek(offset)
            yield from whole(iter(lambda: file.read(block), b""), offset, size, str(target))

    def size(self, path: str) -> int:
        return self._status(path).st_size

    def etag(self, path: str) -> str:
        return etag_of(self._status(path))

    def exists(self, path: str) -> bool:
        try:
            self._status(path)
        except TrainmasterError as error:
            if error.numbers.get("missing"):
                return False
            raise
        return True

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """In the order of the disk. Raises source_unavailable for a link or a special file."""
        for folder, folders, names in os.walk(self._root, onerror=_refuse):
            for name in (*folders, *names):
                place = Path(folder, name)
                status = place.lstat()
                if stat.S_ISREG(status.st_mode):
                    if (path := place.relative_to(self._root).as_posix()).startswith(prefix):
                        yield Entry(path, status.st_size)
                elif not stat.S_ISDIR(status.st_mode):
                    raise unavailable(
                        str(place), "it is a link or a special file, and those are not followed"
                    )

    def _status(self, path: str) -> os.stat_result:
        target = self._path(path)
        with clear_errors(target):
            descriptor = _open(target)
            try:
                return os.fstat(descriptor)
            finally:
                os.close(descriptor)


def _open(target: Path) -> int:
    """A descriptor of this regular file, opened part by part from the root."""
    *folders, name = target.parts[1:]
    descriptor = os.open("/", _FOLDER)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        file = os.open(name, _FILE, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return file


def _refuse(error: OSError) -> None:
    raise unavailable(str(error.filename), error.strerror or error) from error
