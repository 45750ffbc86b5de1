"""Finding processes again: after a restart, and after the one that watched them is gone."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

# In the environment of everything an attempt runs. Agents that share a machine may run parts of one gang.
MARK, FOLDER = "TRAINMASTER_ATTEMPT", "TRAINMASTER_DIR"
_CREATE_TIME_TOLERANCE = 2.0  # the kernel's boot time is rounded, and moves when the clock is set
_KILL_SECONDS = 20.0


def is_alive(pid: int, create_time: float) -> bool:
    """The same process, not another one that was given its number later, and not a zombie."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - create_time) > _CREATE_TIME_TOLERANCE:
            return False
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def tree(pid: int) -> list[psutil.Process]:
    """The process and all below it; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def marked(attempt_id: str, folder: Path | None = None) -> list[psutil.Process]:
    """Every living process that was started for this attempt (in this folder), wherever it hangs now."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            environment = process.environ()
            if environment.get(MARK) == attempt_id and (
                folder is None or environment.get(FOLDER) == str(folder)
            ):
                processes.append(process)
    return processes


def kill_marked(attempt_id: str, folder: Path | None = None) -> int:
    """SIGKILL until none is left; how many there were."""
    killed: set[int] = set()
    deadline = time.monotonic() + _KILL_SECONDS
    while (left := marked(attempt_id, folder)) and time.monotonic() < deadline:
        for process in left:
            killed.add(process.pid)
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1.0)
    return len(killed)


def environment_of(pid: int) -> dict[str, str]:
    try:
        return psutil.Process(pid).environ()
    except psutil.Error:
        return {}
