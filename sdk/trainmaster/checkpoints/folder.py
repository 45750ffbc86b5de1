"""A checkpoint on disk: a folder with its files and `trainmaster.json`, which knows the SHA-256 of each.

It is written under a temporary name, forced to disk and renamed: what has the final name is whole, and what was
damaged later is found. No torch in here.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

DESCRIPTION = "trainmaster.json"
CORRUPT = ".corrupt"
_NAME = re.compile(r"step-(\d{8,18})")
_TEMPORARY = ".writing-"
_BLOCK = 1 << 20

Writer = Callable[[BinaryIO], None]


class CheckpointCorrupt(Exception):
    """Its files differ from what was saved. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Description:
    step: int
    metrics: Mapping[str, float]
    world_size: int
    saved_at_ms: int
    files: tuple[SavedFile, ...] = ()


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


def write(
    parent: Path, description: Description, writers: Mapping[str, Writer], check: Callable[[Path], None]
) -> Path:
    """The folder with its final name, safe on disk. Whatever is raised leaves only what was there before.

    `check` looks at the finished files and raises when they should not become a checkpoint.
    """
    final = parent / name_of(description.step)
    temporary = parent / f"{_TEMPORARY}{final.name}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        files = tuple(_write_file(temporary, path, writer) for path, writer in writers.items())
        _write_file(temporary, DESCRIPTION, lambda file: _put(file, _document(description, files)))
        check(temporary)
        _sync_folder(temporary)
        if final.exists():  # saved again after a resume from an older one
            shutil.rmtree(final)
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(parent)
    return final


def verify(path: Path) -> Description:
    """The description, once every file has the size and SHA-256 that it says. Otherwise CheckpointCorrupt."""
    described = _read_description(path)
    for file in described.files:
        place = path / file.path
        try:
            with place.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            size = place.stat().st_size
        except OSError as error:
            raise CheckpointCorrupt(f"{place} cannot be read: {error.strerror or error}") from error
        if size != file.size:
            raise CheckpointCorrupt(f"{place} has {size:,} bytes; {file.size:,} were saved")
        if digest != file.sha256:
            raise CheckpointCorrupt(f"{place} was damaged after it was saved: its SHA-256 differs")
    return described


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


def prune(parent: Path, keep_last: int) -> None:
    """Only the newest `keep_last` stay (0: all do), and nothing that a killed writer left behind."""
    for path in newest_first(parent)[keep_last:] if keep_last > 0 else []:
        shutil.rmtree(path, ignore_errors=True)
    for path in parent.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


class _Hashing(io.RawIOBase):
    """Hashes what is meant to be written, not what a disk gives back later."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._sha256.update(view)
        self._file.write(view)
        self.size += len(view)
        return len(view)

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def _write_file(folder: Path, path: str, writer: Writer) -> SavedFile:
    with open(folder / path, "xb", buffering=_BLOCK) as file:
        hashing = _Hashing(file)
        writer(hashing)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    return SavedFile(path, hashing.size, hashing.hexdigest())


def _put(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _document(description: Description, files: tuple[SavedFile, ...]) -> bytes:
    finite = {name: value for name, value in description.metrics.items() if math.isfinite(value)}
    document = {
        "format": 1,
        "step": description.step,
        "saved_at_ms": description.saved_at_ms,
        "world_size": description.world_size,
        "metrics": finite,
        "files": [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in files],
    }
    return json.dumps(document, indent=1).encode()


def _read_description(path: Path) -> Description:
    try:
        document = json.loads((path / DESCRIPTION).read_text())
        files = tuple(SavedFile(str(f["path"]), int(f["size"]), str(f["sha256"])) for f in document["files"])
        return Description(
            step=int(document["step"]),
            metrics=dict(document.get("metrics") or {}),
            world_size=int(document.get("world_size", 1)),
            saved_at_ms=int(document.get("saved_at_ms", 0)),
            files=files,
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise CheckpointCorrupt(f"{path} is no checkpoint: {DESCRIPTION} cannot be read ({why})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointCorrupt(f"{path}: {DESCRIPTION} does not make sense ({error!r})") from error


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
