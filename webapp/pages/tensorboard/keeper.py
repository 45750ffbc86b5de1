"""The program that runs one TensorBoard: starts it, feeds it with event files, and ends it.

It ends when nobody has used it for TRAINMASTER_TENSORBOARD_IDLE_SECONDS, when its runs are deleted, when TensorBoard
ends, and when its standard input closes: the web process that started it is gone.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, close_old_connections

from webapp import ROOT
from webapp.pages.tensorboard.boards import Address, Board
from webapp.pages.tensorboard.export import Exporter
from webapp.pages.tensorboard.subjects import exists, runs_of

log = logging.getLogger(__name__)

SYNC_SECONDS = 5  # between two looks for new points, of ours in the database and of TensorBoard in the files
_END_SECONDS = 5.0


def keep(board: Board, parent: int) -> None:
    """Until it has ended. `parent` is a descriptor that closes when the web process is gone."""
    shutil.rmtree(board.logs, ignore_errors=True)
    board.logs.mkdir(parents=True)
    secret = secrets.token_urlsafe(24)
    process = _start(board.logs, secret)
    try:
        exporter = Exporter(board.logs)
        exporter.sync(runs_of(board.key))
        port = process.stdout.readline().strip() if process.stdout else b""
        if not port.isdigit():
            board.fails("TensorBoard did not start; the log of its keeper says why")
            return
        board.listens(Address(int(port), secret))
        _feed(board, process, exporter, parent)
    finally:
        _end(process)
        shutil.rmtree(board.logs, ignore_errors=True)


def _start(logs: Path, secret: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "webapp.pages.tensorboard.server"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=settings.TENSORBOARD_ENVIRONMENT
    )
    assert process.stdin is not None
    options = {
        "logdir": str(logs),
        "path_prefix": f"/{secret}",
        "window_title": f"TensorBoard of {logs.parent.name}",
        "reload_interval": str(SYNC_SECONDS),
    }
    process.stdin.write(json.dumps(options).encode() + b"\n")
    process.stdin.flush()
    return process


def _feed(board: Board, process: subprocess.Popen[bytes], exporter: Exporter, parent: int) -> None:
    while process.poll() is None:
        close_old_connections()
        try:
            if not exists(board.key):
                return
            exporter.sync(runs_of(board.key))
        except DatabaseError as error:  # it comes back
            log.warning("the runs of %s cannot be read now: %s", board.key, error)
        if _is_idle(board) or _is_closed(parent, SYNC_SECONDS):
            return
    board.fails(f"TensorBoard ended with code {process.returncode}")


def _is_idle(board: Board) -> bool:
    return time.time() - board.used.stat().st_mtime >= settings.TENSORBOARD_IDLE_SECONDS


def _is_closed(parent: int, seconds: float) -> bool:
    """Waits so long at most."""
    readable, _, _ = select.select([parent], [], [], seconds)
    return bool(readable) and not os.read(parent, 1)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
