"""The folder of a run as its sender sees it: who it is, what it reported, how far that was sent."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

EVENTS = "events.jsonl"
PIECE_BYTES = 512 * 1024  # of the spool, in one request
LONGEST_LINE = PIECE_BYTES

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the run is on every platform. The id is made here, so that its creation can be repeated."""

    id: str
    name: str = ""
    experiment: str = ""
    team: str = ""
    group: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far the platform at `url` has acknowledged the spool.

    `planned` is the end of the request under way: what is repeated has the same cut, so that its sequence number tells
    the platform that it is the same. `ended`: the end that stands at `offset` was sent.
    """

    url: str = ""
    offset: int = 0
    planned: int = 0
    ended: bool = False


class RunFolder:
    """One process at a time holds it: the run itself, or `trainmaster sync` after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / EVENTS
        self._lock: int | None = None

    def hold(self) -> bool:
        """Whether this process holds it now. The system lets go when the process ends, however it ends."""
        if self._lock is not None:
            return True
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process, not of its forks
        except OSError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def identity(self) -> Identity:
        """A run of an SDK that kept none gets one, named like its folder."""
        known = _read(self.path / "run.json", Identity)
        if known is None or not known.id:
            known = Identity(id=uuid.uuid4().hex, name=self.path.name)
            self.keep_identity(known)
        return known

    def keep_identity(self, identity: Identity) -> None:
        _write(self.path / "run.json", asdict(identity))

    def cursor(self, url: str) -> Cursor:
        """From the beginning for a platform that it was not sent to last."""
        known = _read(self.path / "sent.json", Cursor)
        return known if known is not None and known.url == url else Cursor(url)

    def keep_cursor(self, cursor: Cursor) -> None:
        _write(self.path / "sent.json", asdict(cursor))

    def read(self, offset: int, size: int) -> bytes:
        try:
            with self.events.open("rb") as file:
                file.seek(offset)
                return file.read(size)
        except FileNotFoundError:
            return b""

    def waiting(self, cursor: Cursor) -> int:
        """The bytes that were not sent."""
        try:
            return max(0, self.events.stat().st_size - cursor.offset)
        except FileNotFoundError:
            return 0


def named(identity: Identity, **choices: str) -> Identity:
    """With the choices that are not empty."""
    return replace(identity, **{name: value for name, value in choices.items() if value})


def _read(file: Path, kind: type[T]) -> T | None:
    try:
        known: Any = json.loads(file.read_text())
        names = {declared.name for declared in fields(kind)}  # type: ignore[arg-type]
        return kind(**{name: value for name, value in known.items() if name in names})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write(file: Path, values: dict[str, Any]) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(values) + "\n")
    temporary.replace(file)
