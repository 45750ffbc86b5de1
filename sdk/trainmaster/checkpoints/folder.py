"""The folders of checkpoints: their names, which is the newest, and which of them goes. No torch in here.

A checkpoint is written under a temporary name, forced to disk and renamed: what has the final name is whole, and what
was damaged later is found.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from trainmaster.checkpoints.description import DESCRIPTION, CheckpointCorrupt

__all__ = ["DESCRIPTION", "CheckpointCorrupt"]  # of the names from elsewhere

CORRUPT = ".corrupt"
TEMPORARY = ".writing-"
_NAME = re.compile(r"step-(\d{8,18})")
_UNFINISHED = re.compile(re.escape(TEMPORARY) + r"step-(?P<step>\d{8,18})-(?P<began>\d+)")


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def newest_first(parent: Path) -> list[Path]:
    """Every checkpoint in the folder, the one with the highest step first."""
    if not parent.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in parent.iterdir())
    return [
        path for _, path in sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)
    ]


def fingerprint(path: Path) -> str:
    """Tells two checkpoints apart without reading their states; '' when it is none."""
    try:
        return hashlib.sha256((path / DESCRIPTION).read_bytes()).hexdigest()
    except OSError:
        return ""


def set_aside(path: Path) -> Path:
    """Renames a corrupt checkpoint so that it is not loaded again; it is kept for inspection."""
    aside = path.with_name(path.name + CORRUPT)
    try:
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    except OSError:
        return path
    return aside


def prune(parent: Path, keep_last: int, named: tuple[int, int]) -> None:
    """Only the newest `keep_last` stay (0: all do), and nothing that a killed writer left behind.

    `named`: when the save that is finished now began, in ms, and its step. Other ranks may be writing the next already.
    """
    for path in newest_first(parent)[keep_last:] if keep_last > 0 else []:
        shutil.rmtree(path, ignore_errors=True)
    for path in parent.glob(f"{TEMPORARY}*"):
        match = _UNFINISHED.fullmatch(path.name)
        if match is None or (int(match["began"]), int(match["step"])) <= named:
            shutil.rmtree(path, ignore_errors=True)


def put_in_place(temporary: Path, final: Path) -> None:
    """Gives a finished folder its name, safe on disk."""
    sync(temporary)
    if final.exists():  # saved again after a resume from an older one
        shutil.rmtree(final)
    temporary.rename(final)
    sync(final.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
