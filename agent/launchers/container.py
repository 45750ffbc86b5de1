"""Attempts in containers: the engine keeps them alive, watches them and remembers how they ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import platform_core
import trainmaster
from agent.files import read_json, write_atomically
from agent.launchers import shim
from agent.launchers.accounts import give
from agent.launchers.contract import (
    CONTAINER_FOLDER,
    Alive,
    Ended,
    LauncherError,
    LaunchOrder,
    NotStarted,
    Status,
)
from agent.launchers.engine import ContainerState, Engine, is_name_taken
from agent.launchers.exits import leave_exit, read_exit
from agent.launchers.lease import NO_LEASE, boot_ms, lease_loss, read_lease
from agent.launchers.stop_file import write_stop
from agent.work_folder import WorkFolder

SDK_FOLDER = PurePosixPath("/opt/trainmaster")  # the SDK of this agent, for images that lack it
ASK_EVERY_SECONDS = 1.0  # each question to the engine is a process
INFINIBAND = Path("/dev/infiniband")
_APPEND = 'exec "$@" >>"$0" 2>&1'  # output goes to the same file as in the process launcher
VANISHED = "its container was removed from outside"
# Set for the engine's own command line; a job may have them too, but not through its environment.
_RESERVED = ("PATH", "HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")
_RESERVED_PREFIXES = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "LD_")


class ContainerLauncher:
    """Keeps the promises of `Launcher` with the engine's: a name is given once, a container dies as a whole."""

    name = "container"

    def __init__(
        self, engine: Engine, lease: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine, self._lease, self._clock = engine, lease, clock
        self._asked: dict[Path, tuple[float, Status]] = {}
        self._lock = threading.Lock()

    def fetch(self, order: LaunchOrder) -> None:
        self._engine.fetch(order.image)

    def start(self, order: LaunchOrder) -> None:
        if not isinstance(self._look(order.folder), NotStarted):
            return
        remembered = {
            "container": _name(order.folder),
            "engine": self._engine.program,
            "lease": str(self._lease or "") if order.leased else "",
            "ordered_ms": order.ordered_ms,
            "memory_bytes": order.memory_bytes,
        }
        write_atomically(order.folder.launch_file, json.dumps(remembered).encode())
        if order.account is not None:
            give(order.folder, order.account)
        if self._lease is not None and order.leased:
            lease = read_lease(str(self._lease)) or NO_LEASE
            if (loss := lease_loss(lease, order.ordered_ms, boot_ms())) is not None:
                leave_exit(order.folder, Ended(143, stopped=True, cut_off_ms=loss[0]))
                return
        try:
            self._engine.run(self._arguments(order), order.environment)
        except LauncherError as error:
            if not is_name_taken(error):
                raise
        write_atomically(order.folder.process_file, b'{"container": true}')
        self._watch_lease(order.folder)

    def stand_by(self, order: LaunchOrder) -> None:
        """Each attempt has a container of its own, whose processes begin with it."""

    def stand_down(self, job_id: str, seconds: float) -> None:
        """Nothing stands by."""

    def poll(self, folder: WorkFolder) -> Status:
        with self._lock:
            asked_at, status = self._asked.get(folder.path, (float("-inf"), NotStarted()))
        if self._clock() - asked_at < ASK_EVERY_SECONDS and not isinstance(status, NotStarted):
            return status
        return self._look(folder)

    def adopt(self, folder: WorkFolder) -> Status:
        status = self._look(folder)
        if isinstance(status, Alive):
            self._watch_lease(folder)
        return status

    def _watch_lease(self, folder: WorkFolder) -> None:
        """By a process that outlives this agent; a second one leaves at once. What is not leased needs none."""
        if self._lease is not None and (read_json(folder.launch_file) or {}).get("lease"):
            subprocess.Popen(
                [sys.executable, "-I", "-m", shim.__name__, str(folder.records)],
                env=self._engine.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self, folder: WorkFolder, grace_seconds: int) -> None:
        if isinstance(self._look(folder), Alive):
            write_stop(folder, grace_seconds)
            self._engine.stop_later(_name(folder), grace_seconds)

    def secrets(self, folder: WorkFolder, names: tuple[str, ...]) -> dict[str, str]:
        try:
            seen = self._engine.environment_of(_name(folder))
        except LauncherError:
            return {}
        return {name: seen[name] for name in names if name in seen}

    def forget(self, folder: WorkFolder) -> None:
        self._engine.remove(_name(folder))
        with self._lock:
            self._asked.pop(folder.path, None)

    def _look(self, folder: WorkFolder) -> Status:
        status = self._ask(folder)
        with self._lock:
            self._asked[folder.path] = (self._clock(), status)
        return status

    def _ask(self, folder: WorkFolder) -> Status:
        ended = read_exit(folder)
        if ended is not None:
            return ended
        state = self._engine.state(_name(folder))
        if state is None:
            if folder.process_file.exists():
                return leave_exit(folder, Ended(137, vanished=True, trouble=VANISHED))
            return NotStarted()
        return Alive(state.pid) if state.running else leave_exit(folder, _ended(folder, state))

    def _arguments(self, order: LaunchOrder) -> list[str]:
        folder = order.folder
        arguments = ["--detach", "--init", "--name", _name(folder)]
        arguments += ["--label", f"trainmaster.attempt={folder.attempt_id}"]
        arguments += ["--network", "host", "--ipc", "host"]  # ranks meet by the node's own address
        # What the agent on this machine reads in the folder must not become more than a file of the job's.
        arguments += ["--security-opt", "no-new-privileges", "--cap-drop", "MKNOD"]
        arguments += ["--ulimit", "core=0", "--volume", f"{folder.path}:{CONTAINER_FOLDER}"]
        for fetched in (folder.data, folder.resume, folder.model):
            if fetched.is_dir():
                arguments += ["--volume", f"{fetched}:{_inside(folder, fetched)}:ro"]
        if order.mounted is not None:
            arguments += ["--volume", f"{order.mounted}:{order.mounted}:ro"]
        for package in (trainmaster, platform_core):
            source = Path(str(package.__file__)).parent
            arguments += ["--volume", f"{source}:{SDK_FOLDER / source.name}:ro"]
        arguments += ["--workdir", str(_inside(folder, order.cwd))]
        if order.memory_bytes:
            arguments += ["--memory", str(order.memory_bytes)]
        if order.cpus:
            arguments += ["--cpus", str(order.cpus)]
        if order.gpus and self._engine.is_podman:
            arguments += [part for uuid in order.gpus for part in ("--device", f"nvidia.com/gpu={uuid}")]
        elif order.gpus:
            arguments += ["--gpus", f'"device={",".join(order.gpus)}"']
        arguments += fabric_arguments(order.gpus)
        if order.account is not None:
            arguments += ["--user", f"{order.account.uid}:{order.account.gid}"]
        elif self._engine.is_podman:
            arguments += ["--userns", "keep-id"]
        elif os.getuid() != 0:
            arguments += ["--user", f"{os.getuid()}:{os.getgid()}"]
        arguments += _environment(order)
        command = ["sh", "-c", _APPEND, str(_inside(folder, order.output)), *order.argv]
        return [*arguments, order.image, *command]


def fabric_arguments(gpus: Sequence[str], infiniband: Path = INFINIBAND) -> list[str]:
    """For a job with GPUs on a node with InfiniBand or RoCE: NCCL needs its devices, and memory that stays in place.
    Without them it falls back to TCP without a word."""
    if not gpus or not infiniband.is_dir():
        return []
    return ["--device", str(infiniband), "--ulimit", "memlock=-1:-1"]


def _environment(order: LaunchOrder) -> list[str]:
    """Values go through the environment of the engine's command line, not over it: `ps` shows no secret."""
    python_path = order.environment.get("PYTHONPATH", "")
    path = f"{python_path}:{SDK_FOLDER}" if python_path else str(SDK_FOLDER)
    arguments = ["--env", f"PYTHONPATH={path}"]
    for name, value in sorted(order.environment.items()):
        reserved = name in _RESERVED or name.startswith(_RESERVED_PREFIXES)
        if reserved and name in order.secret_names:
            raise LauncherError(f"A secret in a container cannot be called {name}; give it another name.")
        if name != "PYTHONPATH":
            arguments += ["--env", f"{name}={value}" if reserved else name]
    return arguments


def _name(folder: WorkFolder) -> str:
    return f"trainmaster-{folder.attempt_id}"


def _inside(folder: WorkFolder, path: Path) -> PurePosixPath:
    return CONTAINER_FOLDER / path.relative_to(folder.path).as_posix()


def _ended(folder: WorkFolder, state: ContainerState) -> Ended:
    stopped = folder.stop_file.exists()
    cut_off = read_json(folder.records / "cut_off.json") or {}
    limit = 0
    if state.oom_killed:
        order = read_json(folder.launch_file) or {}
        limit = int(order.get("memory_bytes") or 0)
    return Ended(
        exit_code=state.exit_code,
        stopped=stopped,
        killed_after_grace=stopped and state.exit_code == 137,
        memory_limit_bytes=limit,
        cut_off_ms=int(cut_off.get("cut_off_ms") or 0),
        trouble=state.error,
    )
