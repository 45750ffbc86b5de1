"""Readings of the health of a node's disks: whether its data folder takes files, and what SMART says."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import time
from pathlib import Path

log = logging.getLogger(__name__)

SMART_EVERY_SECONDS = 3600.0
SMART_SECONDS = 20
_FAILING = 8  # bit of smartctl's exit code
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
_BLOCKS = Path("/sys/block")


class HostHealth:
    """Used by one thread at a time. A disk that hangs holds up this thread alone; `waiting_ms` says for how long."""

    def __init__(self, data: Path) -> None:
        self._file = data / "write-probe"
        self._data = data
        self._smart: dict[str, float] = {}
        self._smart_at = -SMART_EVERY_SECONDS
        self._writing_since: float | None = None

    def read(self) -> dict[str, float]:
        now = time.monotonic()
        if now - self._smart_at >= SMART_EVERY_SECONDS:
            self._smart_at, self._smart = now, _smart()
        return {**self._smart, **self._write()}

    def waiting_ms(self) -> float:
        """How long the write that is under way has taken; 0 without one. From any thread."""
        since = self._writing_since
        return 0.0 if since is None else (time.monotonic() - since) * 1000

    def _write(self) -> dict[str, float]:
        self._writing_since = begun = time.monotonic()
        try:
            if os.statvfs(self._data).f_flag & os.ST_RDONLY:
                return {"disk_read_only": 1.0}
            with open(self._file, "wb") as file:
                file.write(b"\0" * 4096)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # a full disk is told by its free space
                return {}
            log.warning("no file can be written to %s: %s", self._data, error)
            return {"disk_read_only" if error.errno == errno.EROFS else "disk_write_failed": 1.0}
        finally:
            self._writing_since = None
        return {"disk_write_ms": round((time.monotonic() - begun) * 1000, 1)}


def _smart() -> dict[str, float]:
    """Nothing where smartctl is not installed or may not ask the disks."""
    program = shutil.which("smartctl")
    if program is None or not _BLOCKS.is_dir():
        return {}
    disks = [path.name for path in _BLOCKS.iterdir() if not path.name.startswith(_NOT_DISKS)]
    failing = sum(_is_failing(program, name) for name in disks)
    return {"smart_failing": float(failing)} if failing else {}


def _is_failing(program: str, disk: str) -> bool:
    command = (program, "-H", f"/dev/{disk}")
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SMART_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(done.returncode & _FAILING)
