"""A shim whose command waits for its attempt: `python -I -m agent.launchers.waiting ORDER`, a socket as standard input.

ORDER is JSON: argv, account, cgroups and memory limit of the command. The socket brings lines: a time to leave, or the
attempt to run, before which the descriptor of its launcher.log comes. From then on this is the shim of that attempt.
At the end of the socket, which the agent's death also brings, it ends its command and leaves.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.launchers.shim import Shim, attend, settle, spawn

TICK_SECONDS = 1.0
_BLOCK = 1 << 16


def main() -> None:
    order = json.loads(sys.argv[1]) | {"folder": "/", "cwd": "/", "output": os.devnull, "lease": ""}
    settle(order)
    command = spawn(order, subprocess.PIPE)
    waiting = Shim(order)
    waiting.command_pid = command.pid
    attempt = _attempt(socket.socket(fileno=0), command, waiting)
    if attempt is None:
        waiting.kill_all()
        shutil.rmtree(order["tmp"], ignore_errors=True)
        with contextlib.suppress(OSError):
            Path(order["cgroup"]).rmdir()
        return
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    attend(Path(attempt["records"]), command, attempt["environment"])


def _attempt(
    control: socket.socket, command: subprocess.Popen[bytes], waiting: Shim
) -> dict[str, Any] | None:
    """None when there will be none, or the command has ended."""
    leaves_at = float("inf")
    for message in _messages(control):
        if message is not None and "records" in message:
            return message
        if message is not None:
            leaves_at = time.monotonic() + message["leaves_in"]
        waiting.watch_memory()
        if command.poll() is not None or time.monotonic() >= leaves_at:
            break
    return None


def _messages(control: socket.socket) -> Iterator[dict[str, Any] | None]:
    """Each message as it comes, None at least once a second. Output goes to the descriptor that comes with one."""
    received = b""
    while True:
        if not select.select([control], [], [], TICK_SECONDS)[0]:
            yield None
            continue
        data, descriptors, _, _ = socket.recv_fds(control, _BLOCK, 1)
        if not data:
            return
        for descriptor in descriptors:
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.close(descriptor)
        *lines, received = (received + data).split(b"\n")
        yield from (json.loads(line) for line in lines if line)


if __name__ == "__main__":
    main()
