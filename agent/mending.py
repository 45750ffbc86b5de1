"""Writes files that the store has lost back to where they lay, from the verified copy on this node."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FileEntry, Manifest
from platform_core.errors import TrainmasterError
from platform_core.node.wanted import MendWanted
from trainmaster.store import Store, open_store

log = logging.getLogger(__name__)

BLOCK = 1 << 20
Held = tuple[Manifest, Path]  # what it is, and the folder of its files


class Mender:
    """Called on the event loop. An order is carried out once; the platform reads the store to see what came of it."""

    def __init__(self, held: Callable[[str], Held | None]) -> None:
        self._held = held
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    def want(self, mends: Iterable[MendWanted]) -> None:
        wanted = {(mend.artifact.manifest_id, mend.order): mend for mend in mends}
        for key in self._tasks.keys() - wanted.keys():
            self._tasks.pop(key).cancel()
        for key, mend in wanted.items():
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._mend(mend))

    async def _mend(self, mend: MendWanted) -> None:
        held = self._held(mend.artifact.manifest_id)
        if held is None:
            log.warning("%s is not here, so the store cannot be mended from it", mend.artifact.manifest_id)
            return
        try:
            await asyncio.to_thread(write_back, *held, mend)
        except (TrainmasterError, OSError) as error:
            log.warning("the store could not be mended: %s", error)
        else:
            log.info("wrote %s back to %s", ", ".join(mend.paths), mend.artifact.source_url)


def write_back(manifest: Manifest, home: Path, mend: MendWanted) -> None:
    """Raises verification_failed where the copy here is not what was registered either; then nothing is written."""
    store = open_store(mend.artifact.source_url)
    for entry in manifest.files:
        if entry.path in mend.paths:
            with (home / entry.path).open("rb") as file:
                _write(store, mend.artifact.source_url, entry, file)


def _write(store: Store, url: str, entry: FileEntry, file: BufferedReader) -> None:
    if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
        raise TrainmasterError("verification_failed", path=entry.path)
    file.seek(0)
    store.write(stored_path(url, entry), _blocks(file), entry.size)


def _blocks(file: BufferedReader) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block
