"""The folders in which code is fetched: a few on a machine, so what all fetches take of its disk is bounded."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PLACES = 3  # fetches at once on a machine
WAIT_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.2


class Full(Exception):
    """No place became free."""


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """An empty folder. What a process that was killed left in it is deleted first. Raises Full."""
    with _locked(_base()) as folder:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def used(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(
        os.lstat(os.path.join(base, name)).st_size for base, _, names in os.walk(folder) for name in names
    )


def _base() -> Path:
    folder = Path(tempfile.gettempdir()) / f"trainmaster-git-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} belongs to somebody else, or others may write there")
    return folder


@contextlib.contextmanager
def _locked(base: Path) -> Iterator[Path]:
    until = time.monotonic() + WAIT_SECONDS
    while True:
        for number in range(PLACES):
            with open(base / f"{number}.lock", "a") as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield base / str(number)
                return
        if time.monotonic() >= until:
            raise Full(f"all {PLACES} places of this server for fetching code are taken; try again shortly")
        time.sleep(_LOOK_EVERY_SECONDS)
