"""The folder in which one `trainmaster up` keeps everything between two starts: secrets, ports, databases, logs.

secrets.env      generated once, readable by the owner only
ports.json       which ports it took
platform.env     the whole environment of the last start, for manage.py by hand
hooks/           commands that rollouts may run on the nodes, put there by the owner of the folder
postgres/ valkey/ agents/node-N/ store/ logs/ run/
"""

import base64
import fcntl
import json
import os
import random
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import psutil

PREFERRED_WEB_PORT = 8000
PREFERRED_MARK = 19_999  # bound by the `up` that has the preferred port
# Each running `up` owns one block of ports, below the range that systems hand out to clients.
BLOCK = 500
BLOCKS = range(20_000, 30_000, BLOCK)
MOST_AGENTS = 16
RENDEZVOUS_PORTS = 24  # for each agent
# What an earlier start left behind may end by itself for so long.
POLITE_SECONDS = 10.0

SECRETS: dict[str, Callable[[], str]] = {
    "TRAINMASTER_SECRET_KEY": lambda: secrets.token_urlsafe(50),
    "TRAINMASTER_SECRETS_KEY": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "TRAINMASTER_BOOTSTRAP_TOKEN": lambda: secrets.token_urlsafe(24),
    "POSTGRES_PASSWORD": lambda: secrets.token_hex(16),
    "VALKEY_PASSWORD": lambda: secrets.token_hex(16),
    "ADMIN_PASSWORD": lambda: secrets.token_urlsafe(12),
}


class StateFolderError(Exception):
    """Why the platform cannot start in this folder."""


@dataclass(frozen=True)
class Ports:
    block: int
    web: int
    gateway: int
    postgres: int
    valkey: int
    router: int = 0
    router_grpc: int = 0
    transfer: tuple[int, ...] = ()
    rendezvous: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, block: int, web: int, agents: int) -> "Ports":
        first = block + 100
        return cls(
            block=block,
            web=web,
            gateway=block + 1,
            postgres=block + 2,
            valkey=block + 3,
            router=block + 5,  # 4 is that of web, where the preferred one is taken
            router_grpc=block + 6,
            transfer=tuple(block + 10 + number for number in range(agents)),
            rendezvous=tuple(
                (first + number * RENDEZVOUS_PORTS, first + (number + 1) * RENDEZVOUS_PORTS - 1)
                for number in range(agents)
            ),
        )

    def servers(self) -> Iterable[int]:
        yield from (self.gateway, self.postgres, self.valkey, self.router, self.router_grpc, *self.transfer)

    def all(self) -> Iterable[int]:
        yield from self.servers()
        for low, high in self.rendezvous:
            yield from range(low, high + 1)


@dataclass
class StateFolder:
    path: Path
    _lock: IO[str] | None = field(default=None, init=False)
    _block_mark: socket.socket | None = field(default=None, init=False)
    _web_mark: socket.socket | None = field(default=None, init=False)

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def certificates(self) -> Path:
        return self.path / "certificates"

    @property
    def store(self) -> Path:
        return self.path / "store"

    @property
    def hooks(self) -> Path:
        return self.path / "hooks"

    def claim(self) -> None:
        """One `up` a folder: a lock that the system takes back whatever way we end. A second call changes nothing."""
        if self._lock:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        for folder in (self.logs, self.run, self.hooks, self.store):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
        # As root, PostgreSQL runs under an account without rights, which has to pass through.
        self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
        file = (self.path / "up.pid").open("a+")
        deadline = time.monotonic() + 3  # the children of one that was killed need a moment
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    file.seek(0)
                    raise StateFolderError(
                        f"The platform in {self.path} is already running (pid {file.read().strip() or '?'}). "
                        "Stop it first, or choose another folder with --dir."
                    ) from None
                time.sleep(0.1)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._lock = file

    def secrets(self) -> dict[str, str]:
        path = self.path / "secrets.env"
        known = read_environment(path) if path.exists() else {}
        missing = {name: make() for name, make in SECRETS.items() if name not in known}
        if missing:
            write_environment(path, known | missing)
        return known | missing

    def ports(self, agents: int, web: int) -> Ports:
        """The ports of last time where they are still free; `web` insists on one, 0 does not."""
        path = self.path / "ports.json"
        try:
            before = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            before = {}
        block = self._take_block(before.get("block"), agents)
        if web:
            if not is_free(web):
                raise StateFolderError(f"Port {web} is taken by another program. Choose another with --port.")
        else:
            web = self._take_web(before.get("web"), block)
        ports = Ports.of(block, web, agents)
        path.write_text(json.dumps(asdict(ports), indent=2) + "\n")
        return ports

    def _take_block(self, before: int | None, agents: int) -> int:
        """The first port of a block stays bound while we run: no other `up` on this machine takes that block."""
        others = random.sample(BLOCKS, len(BLOCKS))
        for block in [before, *others] if before else others:
            mark = socket.socket()
            try:
                mark.bind(("127.0.0.1", block))
            except OSError:
                mark.close()
                continue
            ports = Ports.of(block, 0, agents)
            # Training that outlived the last platform here still meets on its ports: they are taken, but ours.
            if all(is_free(port) for port in (ports.servers() if block == before else ports.all())):
                self._block_mark = mark
                return block
            mark.close()
        raise StateFolderError(f"No {BLOCK} free ports in a row between {BLOCKS.start} and {BLOCKS.stop}.")

    def _take_web(self, before: int | None, block: int) -> int:
        """Returns the port of last time, else the preferred one, else one of the own block.

        The servers start seconds later, so the preferred port, which is in no block, is marked as taken like a block.
        """
        for port in (before, PREFERRED_WEB_PORT):
            if port and is_free(port) and (port != PREFERRED_WEB_PORT or self._mark_preferred()):
                return port
        return block + 4

    def _mark_preferred(self) -> bool:
        mark = socket.socket()
        try:
            mark.bind(("127.0.0.1", PREFERRED_MARK))
        except OSError:
            mark.close()
            return False
        self._web_mark = mark
        return True

    def stop_leftovers(self) -> list[str]:
        """Ends what an `up` that was killed left behind here; returns the names."""
        leftovers = [(path, process) for path in self._pid_files() if (process := recorded_process(path))]
        for _, process in leftovers:
            signal_group(process, signal.SIGINT if process.name() == "postgres" else signal.SIGTERM)
        if not wait_until_gone([path for path, _ in leftovers], seconds=POLITE_SECONDS):
            for _, process in leftovers:
                signal_group(process, signal.SIGKILL)
            wait_until_gone([path for path, _ in leftovers], seconds=5)
        for path in self._pid_files():
            path.unlink()
        return sorted(path.stem for path, _ in leftovers)

    def _pid_files(self) -> list[Path]:
        return [*self.run.glob("*.pid"), *self.path.glob("postgres.pid"), *self.path.glob("valkey.pid")]


def is_free(port: int) -> bool:
    """Whether a server could listen there. Connections that linger after a stop do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
        return True


def recorded_process(pid_file: Path) -> psutil.Process | None:
    """The process that wrote this file, if it still runs and the number was not given to another since."""
    try:
        pid, created = pid_file.read_text().split()
        process = psutil.Process(int(pid))
        # One that ended but was not buried, as in a container without an init, does not run.
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process if abs(process.create_time() - float(created)) < 1 else None
    except (OSError, ValueError, psutil.Error):
        return None


def wait_until_gone(pid_files: list[Path], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(recorded_process(path) for path in pid_files):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def signal_group(process: psutil.Process, number: int) -> None:
    """Every child of `up` leads a group of its own, so nothing that it started is missed."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def read_environment(path: Path) -> dict[str, str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def write_environment(path: Path, values: dict[str, str]) -> None:
    """Replaces the file in one step; only its owner can read it at any time."""
    fresh = path.with_suffix(".fresh")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())
    fresh.rename(path)
