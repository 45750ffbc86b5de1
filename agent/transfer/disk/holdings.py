"""Everything this node holds or is receiving, found by manifest and by chunk."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

from agent.files import write_atomically
from agent.transfer.disk.landing import Landing
from platform_core.distribution.content.manifest import Chunk, Manifest, from_json, to_json
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes

log = logging.getLogger(__name__)

RESERVE_BYTES = 64 << 20  # what a delivery leaves free on the disk for everything else


class Holdings:
    """Belongs to one event loop. Chunks are found by content, so an unchanged chunk of another version counts."""

    def __init__(self, data: Path, node_id: str = "This node", reserve_bytes: int = RESERVE_BYTES) -> None:
        self.data, self.node_id, self._reserve = data, node_id, reserve_bytes
        self.given_up: set[str] = set()  # manifests whose delivery failed here: nobody should wait for them
        self._folder = data / "transfer"
        self._landings: dict[str, Landing] = {}
        self._chunks: dict[tuple[str, int], list[tuple[Landing, Chunk]]] = {}
        self._news = asyncio.Event()
        # Asked before it is looked whether there is any.
        self.make_room: Callable[[], Awaitable[None]] = _nothing

    def load(self) -> None:
        """Blocking. Takes over the complete models of earlier processes; what is half here waits for its order."""
        for folder in sorted(self._folder.glob("man-*")):
            try:
                manifest = from_json((folder / "manifest.json").read_bytes())
            except (OSError, TrainmasterError):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            if (folder / "files").exists():
                continue
            landing = Landing(manifest, folder, folder / "files")
            for home in landing.homes(self.data):
                if _is_whole(manifest, home):
                    landing.files = home
                    landing.open_complete()
                    self._add(landing)
                    break

    def close(self) -> None:
        for landing in self._landings.values():
            landing.close()
        self._landings.clear()
        self._chunks.clear()

    def landing(self, manifest_id: str) -> Landing | None:
        return self._landings.get(manifest_id)

    async def open(self, manifest: Manifest) -> Landing:
        """The landing of this manifest, made or continued; disk_full with the numbers when it cannot fit."""
        self.given_up.discard(manifest.id)
        if (landing := self._landings.get(manifest.id)) is not None:
            return landing
        folder = self._folder / manifest.id
        landing = Landing(manifest, folder, folder / "files")
        await asyncio.to_thread(self._prepare, landing)
        self._add(landing)
        return landing

    def complete(self) -> list[Landing]:
        return [landing for landing in self._landings.values() if landing.complete]

    def promised(self) -> int:
        """Bytes that deliveries still have to write, plus those that must stay free."""
        missing = sum(landing.bytes_missing for landing in self._landings.values())
        return missing + self._reserve if missing else 0

    def check_space(self, landing: Landing) -> None:
        """Blocking. Counts what the other deliveries still have to write as used."""
        others = [other for other in self._landings.values() if other is not landing]
        promised = sum(other.bytes_missing for other in others)
        needed = landing.bytes_missing
        free = shutil.disk_usage(landing.folder).free - promised - self._reserve
        if needed > free:
            numbers = f"needs {format_bytes(needed)} on {self.data} and has {format_bytes(max(0, free))}"
            sentence = f"{self.node_id} {numbers}; free some space, then it goes on by itself"
            raise TrainmasterError("disk_full", sentence, needed=needed, free=free, path=str(self.data))

    def elsewhere(self, chunk: Chunk, landing: Landing) -> Iterator[tuple[Landing, Chunk]]:
        """The same chunk in other landings."""
        for other, same in self._chunks.get((chunk.sha256, landing.manifest.piece_size), []):
            if other is not landing:
                yield other, same

    async def news(self, seconds: float) -> None:
        """Waits until another model is expected here, or this many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def give_up(self, landing: Landing) -> None:
        """Keeps the pieces for another try, but tells waiting nodes that the rest will not come."""
        self.given_up.add(landing.manifest.id)
        self._remove(landing)
        landing.close()

    async def discard(self, manifest_id: str) -> None:
        """Removes everything of an unfinished delivery."""
        if (landing := self._landings.get(manifest_id)) is not None:
            self._remove(landing)
            landing.close()
        self.given_up.add(manifest_id)
        await asyncio.to_thread(shutil.rmtree, self._folder / manifest_id, True)

    async def remove_home(self, manifest_id: str, home: Path) -> None:
        """Takes a complete model out of its home; the last home takes the record with it."""
        landing = self._landings.get(manifest_id)
        if landing is None:
            await asyncio.to_thread(shutil.rmtree, home, True)
        elif await asyncio.to_thread(landing.leave_home, home, self.data):
            await self.discard(manifest_id)

    async def remove_complete(self, manifest_id: str) -> None:
        """Removes the model from all its homes."""
        if (landing := self._landings.get(manifest_id)) is not None:
            for home in await asyncio.to_thread(landing.homes, self.data):
                await self.remove_home(manifest_id, home)

    def _prepare(self, landing: Landing) -> None:
        landing.folder.mkdir(parents=True, exist_ok=True)
        manifest = landing.folder / "manifest.json"
        if not manifest.exists():
            write_atomically(manifest, to_json(landing.manifest).encode())
        if not landing.files.exists():
            # A crash between the rename and here, or a new delivery of what was complete once.
            for home in landing.homes(self.data):
                if _is_whole(landing.manifest, home):
                    landing.files = home
                    landing.open_complete()
                    return
            (landing.folder / "pieces").unlink(missing_ok=True)
        landing.open()

    def _add(self, landing: Landing) -> None:
        self._landings[landing.manifest.id] = landing
        for chunk in landing.manifest.chunks:
            self._chunks.setdefault((chunk.sha256, landing.manifest.piece_size), []).append((landing, chunk))
        self._news.set()
        self._news = asyncio.Event()

    def _remove(self, landing: Landing) -> None:
        self._landings.pop(landing.manifest.id, None)
        for chunk in landing.manifest.chunks:
            key = (chunk.sha256, landing.manifest.piece_size)
            kept = [pair for pair in self._chunks.get(key, []) if pair[0] is not landing]
            if kept:
                self._chunks[key] = kept
            else:
                self._chunks.pop(key, None)


async def _nothing() -> None:
    pass


def _is_whole(manifest: Manifest, home: Path) -> bool:
    try:
        return all((home / entry.path).stat().st_size == entry.size for entry in manifest.files)
    except OSError:
        return False
