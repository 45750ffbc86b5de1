"""The model server as a process, asked over HTTP."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

PATIENCE = 120
STAND_IN = str(Path(__file__).parent / "stand_in")


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    client: httpx.Client

    def is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.client.get("/v2/health/ready").status_code == 200
        return False

    def children(self) -> list[tuple[int, str]]:
        """Process ids and command lines of all below it, without those that have ended."""
        found, parents = [], {self.process.pid}
        for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) in parents and state != "Z":
                    parents.add(int(entry.name))
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append((int(entry.name), line))
        return found


@contextmanager
def serving(folder: Path, port: int, *options: str, **environment: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "trainmaster.serving", str(folder), "--port", str(port), *options]
    process = subprocess.Popen(command, env=os.environ | environment, start_new_session=True)
    server = Server(
        process, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False)
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not server.is_ready():
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the server is not ready"
            time.sleep(0.05)
        yield server
    finally:
        server.client.close()
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
