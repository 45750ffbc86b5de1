"""Digests of files: made while they are written, compared before a byte of them is used. No torch in here."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Executor
from pathlib import Path

from trainmaster.checkpoints.description import CHUNK, CheckpointCorrupt, Description, SavedFile, file_digest
from trainmaster.checkpoints.description import read as read_description


def saved_file(path: str, data: memoryview, executor: Executor | None = None) -> SavedFile:
    """What the description says of a file with these bytes."""
    chunks = _digests(data, executor)
    return SavedFile(path, len(data), file_digest(chunks), chunks)


def read_verified(folder: Path, file: SavedFile, executor: Executor | None = None) -> memoryview:
    """The bytes that were saved. CheckpointCorrupt when the file has others, or cannot be read."""
    place = folder / file.path
    try:
        with place.open("rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != file.size:
                raise CheckpointCorrupt(f"{place} has {size:,} bytes; {file.size:,} were saved")
            data = memoryview(bytearray(size))
            at = 0
            while at < size and (count := stream.readinto(data[at:])):
                at += count
    except OSError as error:
        raise CheckpointCorrupt(f"{place} cannot be read: {error.strerror or error}") from error
    check(file, data[:at], place, executor)
    return data


def check(file: SavedFile, data: memoryview, place: Path, executor: Executor | None = None) -> None:
    """CheckpointCorrupt unless these are the bytes that were saved."""
    if len(data) != file.size:
        raise CheckpointCorrupt(f"{place} has {len(data):,} bytes; {file.size:,} were saved")
    if file.chunks:
        digests = _digests(data, executor)
        whole = digests == file.chunks and file_digest(digests) == file.sha256
    else:  # empty, or of format 1
        whole = hashlib.sha256(data).hexdigest() == file.sha256
    if not whole:
        raise CheckpointCorrupt(f"{place} was damaged after it was saved: its SHA-256 differs")


def verify(folder: Path) -> Description:
    """The description, once every file of it has the bytes that were saved. Otherwise CheckpointCorrupt."""
    description = read_description(folder)
    for file in description.files:
        read_verified(folder, file)
    return description


def _digests(data: memoryview, executor: Executor | None) -> tuple[str, ...]:
    chunks = (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))
    return tuple(executor.map(_digest, chunks) if executor is not None else map(_digest, chunks))


def _digest(data: memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
