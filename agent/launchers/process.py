"""The default launcher: a shim for each attempt, in a session of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from agent.files import read_json, write_atomically
from agent.launchers import limits, processes, shim
from agent.launchers.accounts import give
from agent.launchers.contract import Alive, Ended, LauncherError, LaunchOrder, NotStarted, Status
from agent.launchers.exits import leave_exit, read_exit
from agent.launchers.standby import Standbys, tmp_of
from agent.launchers.stop_file import write_stop
from agent.work_folder import WorkFolder

VANISHED = "the process that watched it was killed from outside, so what was left of it was ended"


class ProcessLauncher:
    name = "process"

    def __init__(self, lease: Path | None = None, standby_free_bytes: int = 0) -> None:
        """Standbys start while so many bytes of memory are available; 0: none does."""
        self._lease = lease
        self._standbys = Standbys(standby_free_bytes)
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._cleared: set[Path] = set()  # of what has ended, where nothing is left alive
        self._lock = threading.Lock()

    def fetch(self, order: LaunchOrder) -> None:
        """Everything is there: the code and the data are in the folder."""

    def start(self, order: LaunchOrder) -> None:
        folder = order.folder
        if not isinstance(self.poll(folder), NotStarted):
            return
        standby = self._standbys.take(order)
        name = standby.name if standby is not None else folder.machine_id
        applied = limits.apply(name, order.memory_bytes, order.cpus)
        document = {
            "folder": str(folder.path),
            "name": name,
            "lease": str(self._lease or "") if order.leased else "",
            "ordered_ms": order.ordered_ms,
            "argv": order.argv,
            "cwd": str(order.cwd),
            "output": str(order.output),
            "cgroup": applied.cgroup,
            "shim_cgroup": applied.shim_cgroup,
            "watch_memory_bytes": applied.watch_memory_bytes,
            "account": None if order.account is None else dataclasses.asdict(order.account) | {"home": ""},
        }
        write_atomically(folder.launch_file, json.dumps(document).encode())
        environment = {**order.environment, processes.MARK: folder.attempt_id}
        with open(folder.launcher_log, "ab", buffering=0) as log:
            log.write(f"[trainmaster] limits: {applied.sentence}\n".encode())
            if order.account is not None:
                give(folder, order.account)  # the last that touches the folder by path
            if standby is not None and standby.begin(folder, environment, log):
                child = standby.process
            else:
                child = _shim(folder, environment, log)
        with self._lock:
            self._children[folder.path] = child

    def stand_by(self, order: LaunchOrder) -> None:
        try:
            self._standbys.prepare(order)
        except OSError as error:
            raise LauncherError(f"No standby could be started: {error.strerror}.") from error

    def stand_down(self, job_id: str, seconds: float) -> None:
        self._standbys.release(job_id, seconds)

    def poll(self, folder: WorkFolder) -> Status:
        starting = self._starting(folder)
        taken = read_json(folder.process_file)
        if taken is None:
            return read_exit(folder) or self._not_taken(folder, starting)
        if processes.is_alive(int(taken["pid"]), float(taken["create_time"])):
            return Alive(int(taken["pid"]))
        self._clear(folder)
        # A job may kill the shim and write an end of its own; the kernel says whether the shim came to writing it.
        killed = starting is not None and starting.poll() != 0
        return (None if killed else read_exit(folder)) or self._record_vanished(folder)

    def _clear(self, folder: WorkFolder) -> None:
        """Kills all that is left of an ended attempt, once, before its slots are given to another."""
        if folder.path not in self._cleared:
            name = _name_of(folder)
            limits.kill(name)
            processes.kill_marked(folder.attempt_id, folder.path)
            if name != folder.machine_id:  # what was a standby has the mark of that
                processes.kill_marked(name)
            self._cleared.add(folder.path)

    def _record_vanished(self, folder: WorkFolder) -> Ended:
        """Records the end of an attempt whose shim vanished without recording one."""
        with self._lock:
            self._children.pop(folder.path, None)
        stopped = folder.stop_file.exists()
        return leave_exit(folder, Ended(exit_code=137, stopped=stopped, vanished=True, trouble=VANISHED))

    def _starting(self, folder: WorkFolder) -> subprocess.Popen[bytes] | None:
        """Our own child, if it was this agent that started the shim; asking also reaps it."""
        with self._lock:
            child = self._children.get(folder.path)
            if child is not None:
                child.poll()
            return child

    def _not_taken(self, folder: WorkFolder, child: subprocess.Popen[bytes] | None) -> Status:
        if child is None:
            return NotStarted()
        if child.returncode is None:
            return Alive(child.pid)
        # It ended between our two looks, or before it could take the attempt at all.
        if folder.process_file.exists():
            return self.poll(folder)
        trouble = f"the shim ended with code {child.returncode} before it began; see launcher.log"
        if child.returncode == shim.DISK_FULL_CODE:
            trouble = "the disk of this node was full before it began"
        return leave_exit(folder, Ended(exit_code=125, trouble=trouble))

    def stop(self, folder: WorkFolder, grace_seconds: int) -> None:
        status = self.poll(folder)
        if isinstance(status, Alive):
            write_stop(folder, grace_seconds)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # It looks at the stop file anyway; this makes it look now.
                os.kill(status.pid, signal.SIGTERM)

    def adopt(self, folder: WorkFolder) -> Status:
        return self.poll(folder)

    def secrets(self, folder: WorkFolder, names: tuple[str, ...]) -> dict[str, str]:
        status = self.poll(folder)
        seen = processes.environment_of(status.pid) if isinstance(status, Alive) else {}
        return {name: seen[name] for name in names if name in seen}

    def forget(self, folder: WorkFolder) -> None:
        taken = read_json(folder.process_file)
        if taken is not None:
            limits.release(str(taken.get("cgroup", "")))
        if (name := _name_of(folder)) != folder.machine_id:
            shutil.rmtree(tmp_of(name), ignore_errors=True)
        with self._lock:
            child = self._children.pop(folder.path, None)
            self._cleared.discard(folder.path)
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=5)


def _shim(folder: WorkFolder, environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-m", shim.__name__, str(folder.records)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        raise LauncherError(f"The shim could not be started: {error.strerror}.") from error


def _name_of(folder: WorkFolder) -> str:
    """Of its cgroup: its own, or that of the standby which it began in."""
    return str((read_json(folder.launch_file) or {}).get("name", folder.machine_id))
