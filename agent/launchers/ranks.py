"""Which processes of an attempt belong to which rank.

A rank leaves its process id in the attempt's folder and leads a session, in which its data loaders are; what the job
writes there is believed only for processes of the job. A program that is none of ours has RANK in its environment.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import psutil

from agent.job_files import JobPath
from agent.launchers import processes
from agent.work_folder import WorkFolder

_MOST_FILES = 10_000
_PID_FILE = re.compile(r"rank-(\d{1,7})\.pid", re.ASCII)


def leaders(folder: WorkFolder, root: int) -> dict[int, psutil.Process]:
    """The process that runs the script of each rank, among those below the process `root`."""
    named = _named(folder)
    found: dict[int, psutil.Process] = {}
    for process in processes.tree(root):
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            rank = named.get(_inner_pid(process.pid))
            if rank is not None:
                found.setdefault(rank, process)
    return dict(sorted(found.items()))


def rank_of(process: psutil.Process, by_leader: Mapping[int, int]) -> int | None:
    """`by_leader`: ranks by the process id of their leader. None where it has none, or belongs to somebody whose
    environment this agent may not read."""
    try:
        led = by_leader.get(os.getsid(process.pid))
        rank = process.environ().get("RANK", "") if led is None else ""
    except (psutil.Error, OSError):
        return None
    if led is not None:
        return led
    return int(rank) if rank.isascii() and rank.isdigit() and len(rank) < 8 else None


def _named(folder: WorkFolder) -> dict[int, int]:
    """Ranks by process id, as the ranks see their own."""
    place = JobPath(folder.path, "ranks")
    named = {}
    for name in place.entries(_MOST_FILES):
        if (match := _PID_FILE.fullmatch(name)) is not None:
            text = (place / name).read(0, 20)
            if text.isdigit():
                named[int(text)] = int(match[1])
    return named


def _inner_pid(pid: int) -> int:
    """As a process in a container sees its own."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])
