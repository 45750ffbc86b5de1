"""Tar files as WebDataset lays them out: the members of a sample stand together and share the name up to its dot."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from trainmaster.data.sources import Shards, read_part, tell_once

_BLOCK = tarfile.BLOCKSIZE
_SCAN_BYTES = 1 << 20
_META = re.compile(r"__[^/]*__(?:$|/)")  # WebDataset's notes about a shard

Members = dict[str, tuple[int, int]]  # offset and size by extension


class Tar(Shards):
    """A sample is a dict: `__key__`, and the bytes of each member by its extension. No compressed tar files.

    What is a sample is what WebDataset takes for one: files whose name has a dot within it, their extensions in small
    letters. Folders, links, files that begin with a dot, as macOS adds them, and `__meta__` are none.
    """

    def _index(self, path: str) -> tuple[int, list[tuple[str, Members]]]:
        """The key of each sample, and extension, offset and size of its members."""
        samples: list[tuple[str, Members]] = []
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                named = _named(member.name) if member.isfile() else None
                if named is None:
                    continue
                if member.issparse():
                    raise ValueError(f"{member.name} is stored with holes; pack it without --sparse")
                key, extension = named
                if not samples or samples[-1][0] != key:
                    samples.append((key, {}))
                if extension in samples[-1][1]:
                    raise ValueError(f"the sample {key} has two members .{extension}")
                samples[-1][1][extension] = member.offset_data, member.size
            end = tar.offset
        if problem := _problem_at_the_end(Path(path), end):
            tell_once(f"shard {path} {problem}; {len(samples):,} samples before that are read")
        return len(samples), samples

    def __getitem__(self, index: int) -> dict[str, str | bytes]:
        shard, number = self._place(index)
        key, members = self._index_of(shard)[number]
        path = self._paths[shard]
        parts = {extension: read_part(path, offset, size) for extension, (offset, size) in members.items()}
        return {"__key__": key, **parts}


def _named(name: str) -> tuple[str, str] | None:
    """Key and extension of a member; None for one that is no part of a sample."""
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    return (folder + slash + stem, extension.lower()) if stem and dot and not _META.match(name) else None


def _problem_at_the_end(path: Path, offset: int) -> str:
    """`offset`: behind the last whole member. A whole archive has blocks of zeros there, and nothing after them;
    readers of tar files stop in silence at anything else."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(offset)
        head = file.read(_BLOCK)
        if not head:
            return f"ends at byte {size:,} without the end of an archive: members may be missing"
        if len(head) < _BLOCK:
            return f"ends early, at byte {size:,} within the head of a member: members are missing"
        if head.strip(b"\0"):
            return (
                f"is damaged at byte {offset:,}, where no member begins: {size - offset:,} bytes are not read"
            )
        if more := _first_byte(file, offset + _BLOCK):
            return (
                f"goes on at byte {more:,} behind the end of its archive: {size - more:,} bytes are not read"
            )
    return ""


def _first_byte(file: BinaryIO, offset: int) -> int:
    """Where something else than zeros stands, else 0."""
    for chunk in _chunks(file):
        if rest := chunk.lstrip(b"\0"):
            return offset + len(chunk) - len(rest)
        offset += len(chunk)
    return 0


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_SCAN_BYTES):
        yield chunk
