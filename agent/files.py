"""Small files that are either whole or not there. Some lie where a job may write: neither end follows a link."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agent.job_files import JobPath

LARGEST_JSON = 64 << 20


def write_atomically(path: Path, content: bytes, mode: int = 0o644, durable: bool = False) -> None:
    """A reader sees the old content or the new one. `durable` also survives a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """None when the file is missing or not a JSON object."""
    text = JobPath(path.parent, path.name).read(0, LARGEST_JSON)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
