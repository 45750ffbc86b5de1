"""The TensorBoards of this machine: one process for each set of runs, with a folder of its own.

A folder has: lock, held by the keeper of the process for as long as it lives; address.json, once TensorBoard listens;
used, whose time is that of the last request; trouble, a sentence when it failed; logs, the event files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from platform_core.errors import TrainmasterError
from platform_core.units import plural
from webapp import ROOT

_keepers: list[subprocess.Popen[bytes]] = []  # of this process; each ends when its standard input closes


@dataclass(frozen=True, slots=True)
class Address:
    port: int
    secret: str  # the first part of every path: other users of this machine do not know it


@dataclass(frozen=True, slots=True)
class Board:
    """The TensorBoard of one run or experiment, running or not. `key` is run-ID or experiment-ID."""

    key: str

    @property
    def folder(self) -> Path:
        return root() / self.key

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def used(self) -> Path:
        return self.folder / "used"

    def is_alive(self) -> bool:
        lock = self._locked()
        if lock is None:
            return True
        os.close(lock)
        return False

    def address(self) -> Address | None:
        """None while it is starting, or does not run."""
        try:
            document = json.loads((self.folder / "address.json").read_text())
        except (OSError, ValueError, RecursionError):
            return None
        return Address(**document) if self.is_alive() else None

    def listens(self, address: Address) -> None:
        _replace(self.folder / "address.json", json.dumps({"port": address.port, "secret": address.secret}))

    def touch(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.used)

    def trouble(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "trouble").read_text()
        return ""

    def fails(self, sentence: str) -> None:
        _replace(self.folder / "trouble", sentence)

    def start(self) -> None:
        """Starts its keeper, unless it runs. Raises unavailable when this machine has as many as it may."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time():
            lock = self._locked()
            if lock is None:
                return
            try:
                _require_room(self)
                for name in ("address.json", "trouble"):
                    (self.folder / name).unlink(missing_ok=True)
                self.used.touch()
                self.touch()
                _keep(self, lock)
            finally:
                os.close(lock)

    def _locked(self) -> int | None:
        """The lock, now ours; None while a keeper holds it."""
        try:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # it never ran
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock


def is_enabled() -> bool:
    return settings.TENSORBOARDS > 0


def root() -> Path:
    """For this user and this platform alone."""
    platform = hashlib.sha256(
        f"{os.getuid()}:{settings.PUBLIC_URL}:{settings.STORE_URL}".encode()
    ).hexdigest()[:12]
    folder = Path(settings.TENSORBOARD_DIR or tempfile.gettempdir()) / f"trainmaster-tensorboards-{platform}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise TrainmasterError(
            "unavailable", f"The folder {folder} is open to other users; an operator has to remove it"
        )
    return folder


def alive() -> list[Board]:
    return [
        board for path in sorted(root().iterdir()) if path.is_dir() and (board := Board(path.name)).is_alive()
    ]


def _require_room(wanted: Board) -> None:
    others = [board for board in alive() if board != wanted]
    if len(others) >= settings.TENSORBOARDS:
        minutes = settings.TENSORBOARD_IDLE_SECONDS // 60
        count = f"{plural(len(others), 'TensorBoard')} {'is' if len(others) == 1 else 'are'} open"
        raise TrainmasterError(
            "unavailable",
            f"{count}, the most that this server runs; one that nobody uses ends after {plural(minutes, 'minute')}",
        )


def _keep(board: Board, lock: int) -> None:
    """The keeper inherits the lock, so that it is held without a gap."""
    _keepers[:] = [keeper for keeper in _keepers if keeper.poll() is None]
    command = [sys.executable, str(ROOT / "manage.py"), "tensorboard", board.key]
    with open(board.folder / "keeper.log", "ab") as log:
        keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT, pass_fds=[lock], start_new_session=True
        )  # fmt: skip
    _keepers.append(keeper)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with open(root() / "start.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)
