"""The part of a checkpoint of format 2 that this node saved: its files go into the store under their digests."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import FileIO

from agent.job_files import JobPath
from platform_core.checkpointing.parts import DESCRIPTION, FORMAT, digest_of_pieces
from platform_core.distribution.content.manifest import FileDigester, FilePart, Manifest, join
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from trainmaster.store import Store, open_store

FILES_AT_ONCE = 4
BLOCK = 1 << 20
LARGEST_DESCRIPTION = 64 << 20
MOST_KNOWN = 10_000  # files whose digests are remembered
YIELDING_SHARE = 0.25  # of its usual rate, while a model moves
YIELDING_RATE = float(32 << 20)  # bytes per second, where the speed of the link is not known


_NUMBERS = {
    "node_rank": 0, "nodes": 1, "world_size": 1, "began_at_ms": 0, "blocking_ms": 0, "write_ms": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SavedFile:
    path: str
    size: int
    sha256: str  # of its content, or, where `chunked`, of the digests of its chunks
    chunked: bool = False


@dataclass(frozen=True, slots=True)
class PartDescription:
    """`trainmaster.json` of one node. A script wrote it, so every field is checked."""

    node_rank: int
    nodes: int
    world_size: int
    began_at_ms: int
    blocking_ms: int
    write_ms: int
    emergency: bool
    files: tuple[SavedFile, ...]


class Pace:
    """Limits the uploads of all checkpoints of this node together. Used by several threads."""

    def __init__(self, rate: float) -> None:
        """`rate` in bytes per second; 0: no limit but beside a model."""
        self._rate = rate
        self.yields = False  # a model moves, which goes first
        self._lock = threading.Lock()
        self._free_at = 0.0

    @property
    def rate(self) -> float:
        if not self.yields:
            return self._rate
        return self._rate * YIELDING_SHARE if self._rate else YIELDING_RATE

    def wait_s(self, size: int, now: float) -> float:
        """Books so many bytes; returns for how long their sender waits."""
        rate = self.rate
        if not rate:
            return 0.0
        with self._lock:
            begin = max(now, self._free_at)
            self._free_at = begin + size / rate
            return begin - now

    def take(self, size: int) -> None:
        if wait := self.wait_s(size, time.monotonic()):
            time.sleep(wait)


def description_of(place: JobPath) -> PartDescription | None:
    """None for a checkpoint of format 1. Raises manifest_invalid where the description makes no sense."""
    text = (place / DESCRIPTION).read(0, LARGEST_DESCRIPTION)
    try:
        document = json.loads(text)
        if not text or document.get("format") != FORMAT:
            return None
    except (ValueError, AttributeError, RecursionError):
        return None
    try:
        files = tuple(
            SavedFile(
                check_path(file["path"]), int(file["size"]), str(file["sha256"]), bool(file.get("chunks"))
            )
            for file in document["files"]
        )
        numbers = {name: int(document.get(name) or default) for name, default in _NUMBERS.items()}
        ranks = (numbers["node_rank"], numbers["nodes"], numbers["world_size"])
        if not all(0 <= number < 1 << 53 for number in numbers.values()) or max(ranks) >= 1 << 31:
            raise ValueError("a number is out of range")
        return PartDescription(**numbers, emergency=bool(document.get("emergency")), files=files)
    except (TrainmasterError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        why = f"{DESCRIPTION} of the checkpoint does not make sense ({error})"
        raise TrainmasterError("manifest_invalid", why=why) from error


class PartUploader:
    """Several files at a time. A file that the store has under its digest is not sent again."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._known: OrderedDict[str, FilePart] = OrderedDict()
        self._lock = threading.Lock()

    def upload(self, place: JobPath, described: PartDescription, url: str) -> Manifest:
        """Blocks. Raises manifest_invalid for a file that is not what the script saved."""
        store = open_store(url)
        pace = (lambda _: None) if described.emergency else self._pace.take
        with ThreadPoolExecutor(FILES_AT_ONCE, "checkpoint") as pool:
            files = [pool.submit(self._file, store, place, file, pace) for file in described.files]
            try:
                parts = [file.result() for file in files]
            finally:
                for file in files:
                    file.cancel()
        return join("checkpoint", parts)

    def _file(self, store: Store, place: JobPath, saved: SavedFile, pace: Callable[[int], None]) -> FilePart:
        known = self._known.get(saved.sha256)
        try:
            with (place / saved.path).open() as file:
                if known is not None and known.entry.size == saved.size:
                    part = replace(known, entry=replace(known.entry, path=saved.path))
                else:
                    part = _described(file, saved)
                digest = part.entry.sha256
                if not (store.exists(digest) and store.size(digest) == saved.size):
                    file.seek(0)
                    store.write(digest, _paced(_same(file, saved, digest), pace), saved.size)
        except OSError as error:
            raise _changed(saved, error.strerror or str(error)) from error
        with self._lock:
            self._known[saved.sha256] = part
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return part


def _described(file: FileIO, saved: SavedFile) -> FilePart:
    """What the manifest says of the file. Raises where it is not what the script saved."""
    size = os.fstat(file.fileno()).st_size
    if size != saved.size:
        raise _changed(saved, f"it has {size:,} bytes, {saved.size:,} were saved")
    digester = FileDigester(saved.path)
    while block := file.read(BLOCK):
        digester.feed(block)
    part = digester.finish()
    if (digest_of_pieces(part) if saved.chunked else part.entry.sha256) != saved.sha256:
        raise _changed(saved, "its SHA-256 differs")
    return part


def _same(file: FileIO, saved: SavedFile, digest: str) -> Iterator[bytes]:
    """Raises before the end of a file that has changed since, so that the store keeps nothing of it."""
    hashed, left = hashlib.sha256(), saved.size
    while left > 0 and (block := file.read(min(BLOCK, left))):
        hashed.update(block)
        left -= len(block)
        if left == 0 and hashed.hexdigest() != digest:
            break
        yield block
    if left or hashed.hexdigest() != digest:
        raise _changed(saved, "its SHA-256 differs")


def _paced(blocks: Iterator[bytes], pace: Callable[[int], None]) -> Iterator[bytes]:
    for block in blocks:
        pace(len(block))
        yield block


def _changed(saved: SavedFile, why: str) -> TrainmasterError:
    return TrainmasterError("manifest_invalid", why=f"{saved.path} is not what was saved: {why}")
