"""A folder as a store."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from trainmaster.store.address import parse
from trainmaster.store.port import BLOCK, Entry, changed, checked, unavailable, whole

_UNFINISHED = ".unfinished-"


class FileStore:
    """Keeps the promises of `Store` by writing beside the target and renaming."""

    same_everywhere = False  # a path may be another disk on each machine, and a copy has another time

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._root = Path("/", *parse(url).parts)

    def read_range(self, path: str, offset: int, size: int, etag: str = "") -> bytes:
        return b"".join(self.stream_range(path, offset, size, etag))

    def stream_range(
        self, path: str, offset: int, size: int, etag: str = "", block: int = BLOCK
    ) -> Iterator[bytes]:
        target = self._path(path)
        with clear_errors(target), target.open("rb") as file:
            if etag and etag != (now := etag_of(os.fstat(file.fileno()))):
                raise changed(str(target), etag, now)
            file.seek(offset)
            blocks = iter(lambda: file.read(block), b"")
            yield from whole(blocks, offset, size, str(target))

    def write(self, path: str, stream: Iterable[bytes], size: int | None = None) -> int:
        target = self._path(path)
        with clear_errors(target, size):
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=target.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    written = sum(file.write(block) for block in stream)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(unfinished, 0o644)  # mkstemp makes files that only their owner reads
                os.replace(unfinished, target)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(unfinished)
                raise
        return written

    def exists(self, path: str) -> bool:
        return self._path(path).is_file()

    def size(self, path: str) -> int:
        with clear_errors(self._path(path)):
            return self._path(path).stat().st_size

    def etag(self, path: str) -> str:
        with clear_errors(self._path(path)):
            return etag_of(self._path(path).stat())

    def real(self, path: str) -> str:
        return self._path(path).resolve().as_uri()

    def list(self, prefix: str = "") -> Iterator[Entry]:
        entries = []
        for folder, _, names in os.walk(self._root / prefix.rpartition("/")[0]):
            for name in names:
                if name.startswith(_UNFINISHED):
                    continue
                file = Path(folder, name)
                if (path := file.relative_to(self._root).as_posix()).startswith(prefix):
                    with suppress(FileNotFoundError):  # deleted while we look
                        entries.append(Entry(path, file.stat().st_size))
        yield from sorted(entries, key=lambda entry: entry.path)

    def move(self, path: str, to: str) -> None:
        source, target = self._path(path), self._path(to)
        with clear_errors(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)

    def delete(self, path: str) -> None:
        with clear_errors(self._path(path)):
            self._path(path).unlink(missing_ok=True)

    def _path(self, path: str) -> Path:
        return self._root / checked(path)


def etag_of(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


@contextmanager
def clear_errors(target: Path, needed: int | None = None) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise unavailable(str(target), "there is no such file", missing=True) from error
    except OSError as error:
        raise disk_error(target, error, needed) from error


def disk_error(target: Path, error: OSError, needed: int | None = None) -> TrainmasterError:
    """The operating system's error about this path as ours: disk_full or source_unavailable."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return unavailable(str(target), error.strerror or error)
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    wanted = format_bytes(needed) if needed else "more space"
    sentence = f"The disk of {folder} is full: {target.name} needs {wanted}, {format_bytes(free)} are free"
    return TrainmasterError("disk_full", sentence, path=str(folder), free=free, needed=needed)
