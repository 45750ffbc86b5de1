"""Asks the agent for files of a checkpoint that this node lacks: their paths, one a line, in `wanted-files`.

The agent puts them beside the others, from the store. No torch in here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

NAME = "wanted-files"
REFUSED = ".damaged"  # ends the name of the file that says why one of them does not come
LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 600.0  # without one more file, or one more byte of one


def ask(work_folder: Path, rank: int, checkpoint: Path, paths: Iterable[str]) -> None:
    """Returns when all are there, or when nothing came for PATIENCE_SECONDS. Ranks ask in files of their own, which the
    agent of the node reads as one: `wanted-files` of the node's first rank, `wanted-files.<rank>` of the others."""
    missing = {path for path in paths if not (checkpoint / path).exists()}
    if not missing:
        return
    file = work_folder / (f"{NAME}.{rank}" if rank else NAME)
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text("".join(f"{path}\n" for path in sorted(missing)))
    os.replace(temporary, file)
    seen, deadline = _bytes_in(checkpoint), time.monotonic() + PATIENCE_SECONDS
    while missing and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        missing = {path for path in missing if not _is_answered(checkpoint / path)}
        if (now := _bytes_in(checkpoint)) != seen:
            seen, deadline = now, time.monotonic() + PATIENCE_SECONDS
    file.unlink(missing_ok=True)


def _is_answered(path: Path) -> bool:
    return path.exists() or path.with_name(path.name + REFUSED).exists()


def _bytes_in(folder: Path) -> int:
    return sum(_size(entry) for entry in os.scandir(folder))


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size if entry.is_file() else 0
    except FileNotFoundError:  # the agent has given it its final name meanwhile
        return 0
