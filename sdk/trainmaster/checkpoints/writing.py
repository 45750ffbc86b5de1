"""The part of a save that runs beside the training: write, hash, force to disk, agree, rename. No torch in here."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from trainmaster.checkpoints import folder, verification
from trainmaster.checkpoints.collective import Channel
from trainmaster.checkpoints.description import DESCRIPTION, Description, SavedFile, encode

Content = tuple[str, memoryview]
_BLOCK = 16 << 20


@dataclass(frozen=True, slots=True)
class Node:
    """The ranks that write into one folder; the first of them names it."""

    node_rank: int
    nodes: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """One save of one rank. `contents` waits for the copies and gives the files, as long as the save lasts."""

    description: Description
    parent: Path
    contents: Callable[[], Iterable[Content]]
    began: float  # time.perf_counter()
    courteous: bool  # leave the processors to the training
    finished: Callable[[Path, Description], None]  # on the first rank of each node, once all parts are there
    failed: Callable[[int, str], None]
    verified: bool = True  # False: without digests, for the benchmark


class Writer(threading.Thread):
    """Not a daemon: the interpreter waits for a save in flight before it ends.

    `sentence` says why there is no checkpoint, the same on all ranks; '' when there is one.
    """

    def __init__(self, order: Order, node: Node, channel: Channel) -> None:
        super().__init__(name=f"trainmaster-save-{order.description.step}", daemon=False)
        self._order, self._node, self._channel = order, node, channel
        self.step = order.description.step
        self.sentence = ""
        self.write_seconds = 0.0
        name = folder.name_of(order.description.step)
        self.final = order.parent / name
        self._hasher = _Hasher(order.courteous) if order.verified else None
        self._temporary = order.parent / f"{folder.TEMPORARY}{name}-{order.description.began_at_ms}"

    def run(self) -> None:
        if self._order.courteous:
            _step_back()
        try:
            self.sentence = self._save()
        except BaseException as error:  # a rank died, or the group did
            self.sentence = _why(error)
            self._clean_up(named=False)
        if self.sentence:
            self._order.failed(self.step, self.sentence)
        self.write_seconds = time.perf_counter() - self._order.began

    def _save(self) -> str:
        """Two agreements: after the files, so that no part is named while another failed; and after the names."""
        leader = self._channel.rank == self._node.ranks[0]
        trouble = self._channel.first_sentence(_sentence_of(self._write_files))
        named = False
        if not trouble:
            own = _sentence_of(self._give_name) if leader else ""
            named = leader and not own
            trouble = self._channel.first_sentence(own)
        if trouble:
            self._clean_up(named)
        elif leader:
            self._order.finished(self.final, self._described)
        return trouble

    def start(self) -> None:
        if self._hasher is not None:  # now, as a thread cannot be begun while the interpreter ends
            self._hasher.start()
        super().start()

    def _write_files(self) -> None:
        self._temporary.mkdir(parents=True, exist_ok=True)
        sizes = {}
        try:
            for path, data in self._order.contents():
                if self._hasher is not None:
                    self._hasher.queue.put((path, data))
                _write(self._temporary / path, data)
                sizes[path] = len(data)
        finally:
            digested = self._hasher.finish() if self._hasher is not None else {}
        files = [digested.get(path) or SavedFile(path, size, "") for path, size in sizes.items()]
        document = {
            "blocking_ms": self._order.description.blocking_ms,
            "files": [[file.path, file.size, file.sha256, file.chunks] for file in files],
        }
        (self._temporary / _part(self._channel.rank)).write_text(json.dumps(document))

    def _give_name(self) -> None:
        parts = [self._temporary / _part(rank) for rank in self._node.ranks]
        documents = [json.loads(part.read_text()) for part in parts]
        for part in parts:
            part.unlink()
        milliseconds = round((time.perf_counter() - self._order.began) * 1000)
        self._described = replace(
            self._order.description,
            files=tuple(
                SavedFile(path, size, sha256, tuple(chunks))
                for document in documents
                for path, size, sha256, chunks in document["files"]
            ),
            nodes=self._node.nodes,
            node_rank=self._node.node_rank,
            blocking_ms=max(document["blocking_ms"] for document in documents),
            write_ms=milliseconds,
            saved_at_ms=self._order.description.began_at_ms + milliseconds,
        )
        _write(self._temporary / DESCRIPTION, memoryview(encode(self._described)))
        folder.put_in_place(self._temporary, self.final)

    def _clean_up(self, named: bool) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)
        if named:
            shutil.rmtree(self.final, ignore_errors=True)


class _Hasher(threading.Thread):
    """Digests files while they are written."""

    def __init__(self, courteous: bool) -> None:
        super().__init__(name="trainmaster-digests", daemon=False)
        self.queue: SimpleQueue[Content | None] = SimpleQueue()
        self._courteous = courteous
        self._digested: dict[str, SavedFile] = {}

    def run(self) -> None:
        if self._courteous:
            _step_back()
        while (content := self.queue.get()) is not None:
            path, data = content
            self._digested[path] = verification.saved_file(path, data)

    def finish(self) -> dict[str, SavedFile]:
        self.queue.put(None)
        self.join()
        return self._digested


def _write(path: Path, data: memoryview) -> None:
    with open(path, "xb", buffering=0) as file:
        at = 0
        while at < len(data):
            at += file.write(data[at : at + _BLOCK])
        os.fsync(file.fileno())


def _part(rank: int) -> str:
    return f"part-{rank:05d}.json"


def _sentence_of(act: Callable[[], None]) -> str:
    try:
        act()
    except BaseException as error:
        return _why(error)
    return ""


def _why(error: BaseException) -> str:
    return f"{error}" or type(error).__name__


def _step_back() -> None:
    """This thread yields to the training. Linux keeps a priority for each thread."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
