"""exit.json: how the command of an attempt ended, written once, by whoever saw it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.files import read_json, write_atomically
from agent.launchers.contract import Ended
from agent.work_folder import WorkFolder

EXIT_BYTES = 4096
EXIT_AGAIN_SECONDS = 1.0


def read_exit(folder: WorkFolder) -> Ended | None:
    document = read_json(folder.exit_file)
    if document is None:
        return None
    return Ended(
        exit_code=int(document.get("exit_code", 125)),
        stopped=bool(document.get("stopped")),
        killed_after_grace=bool(document.get("killed_after_grace")),
        memory_limit_bytes=int(document.get("memory_limit_bytes") or 0),
        cut_off_ms=int(document.get("cut_off_ms") or 0),
        vanished=bool(document.get("vanished")),
        trouble=str(document.get("trouble", "")),
    )


def leave_exit(folder: WorkFolder, ended: Ended) -> Ended:
    document = {
        "exit_code": ended.exit_code,
        "stopped": ended.stopped,
        "killed_after_grace": ended.killed_after_grace,
        "memory_limit_bytes": ended.memory_limit_bytes,
        "cut_off_ms": ended.cut_off_ms,
        "vanished": ended.vanished,
        "trouble": ended.trouble,
    }
    write_atomically(folder.exit_file, json.dumps(document).encode(), durable=True)
    return ended


def reserve_exit(records: Path) -> None:
    """Reserves the blocks of exit.json, since the command may fill the disk."""
    write_over(records / ".exit.json.new", b" " * EXIT_BYTES)


def write_exit(
    records: Path,
    document: dict[str, Any],
    pause: Callable[[], None] = lambda: time.sleep(EXIT_AGAIN_SECONDS),
) -> None:
    """Over the reserved blocks. Should the disk be too full even for that, again and again until there is room: an
    attempt without an end counts as killed from outside."""
    text = json.dumps({**document, "ended_at_ms": time.time_ns() // 1_000_000}).encode()
    temporary = records / ".exit.json.new"
    while records.is_dir():
        try:
            write_over(temporary, text.ljust(EXIT_BYTES))
            os.replace(temporary, records / "exit.json")
            return
        except OSError:
            pause()


def write_over(path: Path, content: bytes) -> None:
    """Writes over the file without freeing its blocks first."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
