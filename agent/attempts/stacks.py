"""Stack dumps of the ranks on this node, by SIGUSR1 to `trainmaster.rank` or by py-spy. Blocks for some seconds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from agent.job_files import JobPath
from agent.launchers.ranks import leaders
from agent.work_folder import WorkFolder
from platform_core.jobs.stacks import Frame, RankStack, moved, parse, summary

ANSWER_SECONDS, BETWEEN_SECONDS = 2.0, 3.0
MOST_BYTES = 256 * 1024  # of one dump
_STATES = {
    psutil.STATUS_STOPPED: "stopped",
    psutil.STATUS_TRACING_STOP: "stopped by a debugger",
    psutil.STATUS_DISK_SLEEP: "waits for a disk or a network file system",
    psutil.STATUS_ZOMBIE: "ended",
}


@dataclass(frozen=True, slots=True)
class Dump:
    """The stacks of one rank at one moment."""

    text: str
    frames: tuple[Frame, ...]


def dump_twice(
    folder: WorkFolder, root: int, steps: Mapping[int, int], between_seconds: float = BETWEEN_SECONDS
) -> tuple[RankStack, ...]:
    """Dumps all ranks below the process `root` twice, puts the text into their logs and returns it in short.

    `steps`: the last step of each rank, as far as it is known.
    """
    ranks = leaders(folder, root)
    before = _dump_all(folder, ranks)
    threading.Event().wait(between_seconds)
    after = _dump_all(folder, ranks)
    stacks = []
    for rank, process in ranks.items():
        stack = summary(rank, after[rank].frames, steps.get(rank, 0), _state_of(process, after[rank]))
        stack = replace(stack, moving=moved(before[rank].frames, after[rank].frames))
        _append_to_log(folder, rank, after[rank].text or stack.state)
        stacks.append(stack)
    return tuple(stacks)


def _dump_all(folder: WorkFolder, ranks: Mapping[int, psutil.Process]) -> dict[int, Dump]:
    """Signals all ranks first and reads then, so that the dumps are of one moment."""
    files = {rank: JobPath(folder.path, f"stacks/rank-{rank}.txt") for rank in ranks}
    begins = {rank: file.size() for rank, file in files.items()}
    signalled = [rank for rank, process in ranks.items() if _signal(process)]
    deadline = time.monotonic() + ANSWER_SECONDS
    texts = {rank: _answer(files[rank], begins[rank], deadline) for rank in signalled}
    for rank, process in ranks.items():
        texts[rank] = texts.get(rank) or _spy(process)
    return {rank: Dump(texts[rank], parse(texts[rank])) for rank in ranks}


def _signal(process: psutil.Process) -> bool:
    """SIGUSR1, if the process catches it: any other would die of it."""
    try:
        if not catches(process.pid, signal.SIGUSR1):
            return False
        process.send_signal(signal.SIGUSR1)
    except (OSError, psutil.Error):
        return False
    return True


def catches(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def _answer(file: JobPath, begin: int, deadline: float) -> str:
    """What was appended, once it grows no more; '' for a process that does not run."""
    size, pause = begin, threading.Event()
    while time.monotonic() < deadline:
        pause.wait(0.05)
        newest = file.size()
        if begin < newest == size:
            break
        size = newest
    return file.read(begin, MOST_BYTES).decode(errors="replace")


def _spy(process: psutil.Process) -> str:
    """By py-spy, where the node has it."""
    program = shutil.which("py-spy")
    if program is None:
        return ""
    command: Sequence[str] = (program, "dump", "--nonblocking", "--pid", str(process.pid))
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:MOST_BYTES].decode(errors="replace")


def _state_of(process: psutil.Process, dump: Dump) -> str:
    if dump.frames:
        return ""
    try:
        status = process.status()
        catching = catches(process.pid, signal.SIGUSR1)
    except (OSError, psutil.Error):
        return "ended"
    return _STATES.get(status, "gave no stack" if catching else "its script took SIGUSR1 for itself")


def _append_to_log(folder: WorkFolder, rank: int, text: str) -> None:
    header = f"trainmaster: stack dump of rank {rank}\n"
    try:
        JobPath(folder.path, f"logs/rank-{rank}.log").append((header + text.rstrip() + "\n").encode())
    except OSError as error:  # the disk is full: the short form goes up all the same
        os.write(2, f"the stack dump of rank {rank} is not in its log: {error}\n".encode())
