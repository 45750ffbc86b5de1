"""What a store of bytes promises, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError

BLOCK = 1 << 20  # how much is read at once
SILENCE_SECONDS = 30.0  # without a byte, then a call fails; an upload's last answer may take a while


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    size: int


class Store(Protocol):
    """Bytes under paths below one URL. Safe to use from several threads at once; every call may block.

    Reading: bytes come back exactly as asked or the call raises; a short answer is an error, not a result.
    Writing: a path has its old content or the whole new one, also when the writer dies in the middle or two
    write at once (the last to finish wins); missing folders appear by themselves.
    Deleting what is not there is no error. Paths are relative with forward slashes; '..' is refused.
    Errors are TrainmasterError: source_unavailable with what failed and why (`missing` where the store answers that it
    does not have these bytes), source_changed with both etags, disk_full with the numbers, request_invalid for a bad
    path or something this kind of store cannot do.
    """

    url: str
    same_everywhere: bool  # whether all machines that read a path read the same, and see the same etag of it

    def read_range(self, path: str, offset: int, size: int, etag: str = "") -> bytes:
        """These bytes. With `etag`, those of the content that had this etag, or source_changed."""

    def stream_range(
        self, path: str, offset: int, size: int, etag: str = "", block: int = BLOCK
    ) -> Iterator[bytes]:
        """The same in blocks of at most so many bytes, without holding them all."""

    def write(self, path: str, stream: Iterable[bytes], size: int | None = None) -> int:
        """Stores all of the stream and gives its length. `size`, when known, helps with very large files."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def etag(self, path: str) -> str:
        """Changes when the content changes; "" where the store has no such thing."""

    def real(self, path: str) -> str:
        """The URL of the place that is read for this path, with the links of a disk followed."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every file whose path begins with the prefix, in order of the paths."""

    def move(self, path: str, to: str) -> None:
        """The same bytes under another path of the store, in place of what was there; they do not pass through here."""

    def delete(self, path: str) -> None: ...


def checked(path: str) -> str:
    try:
        return check_path(path)
    except TrainmasterError as error:
        raise TrainmasterError("request_invalid", what="the path", why=error.numbers["why"]) from error


def whole(blocks: Iterable[bytes], offset: int, size: int, where: str) -> Iterator[bytes]:
    """The blocks, cut to `size`; source_unavailable when they end too early."""
    left = size
    for block in blocks:
        if len(block) >= left:
            yield block[:left]
            return
        left -= len(block)
        yield block
    if left:
        why = f"it ended {left} bytes before the end of the range {offset}+{size}"
        raise unavailable(where, why, missing=True)


def changed(where: str, then: str, now: str) -> TrainmasterError:
    return TrainmasterError(
        "source_changed", source=where, since="meanwhile", then=then, now=now or "nothing"
    )


@contextmanager
def telling_since(since: str) -> Iterator[None]:
    """Who calls a store knows when the etag that it gives was taken."""
    try:
        yield
    except TrainmasterError as error:
        if error.code == "source_changed":
            raise since_when(error, since) from error
        raise


def since_when(error: TrainmasterError, since: str) -> TrainmasterError:
    """The same source_changed, in these words."""
    source, then, now = (error.numbers[name] for name in ("source", "then", "now"))
    return TrainmasterError("source_changed", source=source, since=since, then=then, now=now)


def unavailable(where: str, why: object, missing: bool = False) -> TrainmasterError:
    """`missing`: the store could be asked, and does not have these bytes."""
    return TrainmasterError("source_unavailable", source=where, why=why, missing=missing)


def read_only(where: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=where, why="this kind of store can only be read")


def shown(url: str) -> str:
    """The URL without password and query, which may hold a signature: fit for a sentence or a log."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
