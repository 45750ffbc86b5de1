"""The processes that stand by on this node for the next attempt of a job, with the framework already imported."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from agent.launchers import limits, processes, waiting
from agent.launchers.contract import LaunchOrder
from agent.work_folder import SHORT_TMP, WorkFolder

log = logging.getLogger(__name__)

ARGUMENT = "--standby"  # of trainmaster.gang
_OWN_PREFIX = "TRAINMASTER_"


@dataclass(frozen=True, slots=True)
class Standby:
    """A shim that waits with its command. `name` stands for what an attempt's own name stands for elsewhere."""

    name: str
    made_for: tuple[object, ...]
    process: subprocess.Popen[bytes]
    control: socket.socket

    def begin(self, folder: WorkFolder, environment: dict[str, str], log_file: IO[bytes]) -> bool:
        """Has it take the attempt; its output goes to `log_file`. False when it has just ended."""
        message = json.dumps({"records": str(folder.records), "environment": environment})
        try:
            with self.control:
                socket.send_fds(self.control, [b"\n"], [log_file.fileno()])
                self.control.sendall(f"{message}\n".encode())
        except OSError:
            return False
        return True


class Standbys:
    """At most one for each job. They end with the agent. Safe to call from any thread."""

    def __init__(self, free_bytes: int) -> None:
        """`free_bytes` of memory must be available before one starts; with 0 none does."""
        self._free_bytes = free_bytes
        self._waiting: dict[str, Standby] = {}
        self._lock = threading.Lock()

    def prepare(self, order: LaunchOrder) -> None:
        """One for the job of this order, unless it has one."""
        if not order.standby_of or not self._free_bytes:
            return
        free = psutil.virtual_memory().available
        if free < self._free_bytes:
            log.info("no standby for %s: %d bytes of memory are free", order.folder.attempt_id, free)
            return
        with self._lock:
            known = self._waiting.get(order.standby_of)
            if known is not None and known.process.poll() is None:
                return
            self._waiting[order.standby_of] = _start(order)

    def take(self, order: LaunchOrder) -> Standby | None:
        """The one that can begin this order; nobody else gets it."""
        with self._lock:
            standby = self._waiting.pop(order.standby_of, None)
        if standby is None or standby.process.poll() is not None:
            return None
        if standby.made_for != _made_for(order):
            standby.control.close()
            return None
        return standby

    def release(self, job_id: str, seconds: float) -> None:
        """It leaves when the job has not taken it after this time."""
        with self._lock:
            standby = self._waiting.get(job_id) if seconds else self._waiting.pop(job_id, None)
        if standby is None:
            return
        with contextlib.suppress(OSError):
            standby.control.sendall(f"{json.dumps({'leaves_in': seconds})}\n".encode())


def tmp_of(name: str) -> Path:
    """Its folder for temporary files, for as long as its processes live: that of its attempt comes later."""
    return SHORT_TMP / name


def _made_for(order: LaunchOrder) -> tuple[object, ...]:
    return (order.argv[0], order.account, order.cpus, order.memory_bytes)


def _start(order: LaunchOrder) -> Standby:
    """Without the job's secrets, which come with its attempt."""
    name = f"trainmaster-standby-{uuid.uuid4().hex[:12]}"
    applied = limits.apply(name, order.memory_bytes, order.cpus)
    tmp = tmp_of(name)
    tmp.mkdir(mode=0o700)
    if order.account is not None:
        os.chown(tmp, order.account.uid, order.account.gid)
    environment = {
        variable: value
        for variable, value in order.environment.items()
        if variable not in order.secret_names and not variable.startswith(_OWN_PREFIX)
    }
    document = {
        "argv": [*order.argv[: order.argv.index("-m") + 2], ARGUMENT],
        "cgroup": applied.cgroup,
        "shim_cgroup": applied.shim_cgroup,
        "watch_memory_bytes": applied.watch_memory_bytes,
        "tmp": str(tmp),
        "account": None if order.account is None else dataclasses.asdict(order.account) | {"home": ""},
    }
    ours, its = socket.socketpair()
    with its:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", waiting.__name__, json.dumps(document)],
            env={**environment, processes.MARK: name, "TMPDIR": str(tmp)},
            stdin=its.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    log.info("a standby waits for the next attempt after %s", order.folder.attempt_id)
    return Standby(name, _made_for(order), process, ours)
