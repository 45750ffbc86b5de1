"""The models on this node's disk as a cache: when each was last used, and which are evicted from a full disk."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from agent.transfer.disk.holdings import Holdings
from agent.transfer.disk.landing import Landing
from platform_core.distribution.content.cache import Home, evict
from platform_core.units import format_bytes

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 60.0


class Watermarks(NamedTuple):
    """Percent of the disk in use: above `high` models are evicted down to `low`. 100 and 100: only to fit new ones."""

    low: int = 100
    high: int = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """What the orders for a model say of it."""

    pinned: bool = False
    preheated: bool = False
    under_way: bool = False


class Disk(Protocol):
    """`used` and `free` are together what such programs as ours can have of it; the rest is the system's own."""

    @property
    def used(self) -> int: ...

    @property
    def free(self) -> int: ...


class Cache:
    """Belongs to the event loop of its holdings.

    `standings` tells of every model that was ordered, by manifest; `in_use` the folders that are active, or to which
    this node would go back. `evicted` hears of each model that goes, with the reason, before its files are touched.
    """

    def __init__(
        self,
        holdings: Holdings,
        marks: Watermarks,
        standings: Callable[[], Mapping[str, Standing]],
        in_use: Callable[[], Collection[Path]],
        evicted: Callable[[str, str], None],
        disk: Callable[[Path], Disk] = shutil.disk_usage,
    ) -> None:
        self._holdings, self._marks, self._standings = holdings, marks, standings
        self._in_use, self._evicted, self._disk = in_use, evicted, disk
        self._sent: dict[str, int] = {}
        self._turn = asyncio.Lock()

    async def watch(self) -> None:
        """For ever."""
        while True:
            try:
                await self.make_room()
            except OSError:
                log.exception("the disk could not be looked at")
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def settled(self) -> None:
        """Waits until evictions under way have ended."""
        async with self._turn:
            pass

    async def make_room(self) -> None:
        """Evicts models for deliveries under way, and down to the watermarks."""
        async with self._turn:
            disk, seen = await asyncio.to_thread(self._look, self._holdings.complete())
            coming = self._holdings.promised()
            homes = self._with_orders(seen)  # no other await until the choice is told
            size = disk.used + disk.free
            going = evict(homes, disk.free, size, self._marks.low, self._marks.high, coming)
            reason = self._reason(disk, coming)
            for home in going:
                log.warning("%s goes: %s", home.id, reason)
                self._evicted(home.id, reason)
            for home in going:
                try:
                    await self._holdings.remove_complete(home.id)
                except OSError:
                    log.exception("%s could not be removed", home.id)

    def _reason(self, disk: Disk, coming: int) -> str:
        size = disk.used + disk.free
        full = f"{100 * disk.used // size if size else 100} % of the disk were in use"
        if disk.used * 100 > size * self._marks.high:
            return f"{full}, more than {self._marks.high} %; this had been unused the longest"
        return f"{full} and {format_bytes(coming)} on their way; this had been unused the longest"

    def _with_orders(self, seen: list[_Seen]) -> list[Home]:
        """The models on disk, with what the orders now say of each."""
        standings = self._standings()
        in_use = {path.resolve() for path in self._in_use()}
        homes = []
        for one in seen:
            active = not in_use.isdisjoint(one.homes)
            if active:
                with suppress(OSError):
                    _mark(one.landing).touch()
            homes.append(_home(one, active, standings.get(one.landing.manifest.id, Standing())))
        return homes

    def _look(self, landings: list[Landing]) -> tuple[Disk, list[_Seen]]:
        """Blocking."""
        seen = [self._seen(landing) for landing in landings]
        return self._disk(self._holdings.data), [one for one in seen if one.homes]

    def _seen(self, landing: Landing) -> _Seen:
        sent, known = landing.sent.total, self._sent.get(landing.manifest.id, 0)
        self._sent[landing.manifest.id] = sent
        if sent != known:
            with suppress(OSError):
                _mark(landing).touch()
        homes = landing.homes(self._holdings.data)  # none: its files are not where they belong yet
        files = (home / entry.path for home in homes for entry in landing.manifest.files)
        used_ms = max([_newest(_mark(landing)), *map(_newest, files)])
        return _Seen(landing, frozenset(home.resolve() for home in homes), used_ms)


class _Seen(NamedTuple):
    landing: Landing
    homes: frozenset[Path]
    used_ms: int


def _mark(landing: Landing) -> Path:
    """Touched when it was of use in a way that its files do not show."""
    return landing.folder / "used"


def _home(seen: _Seen, active: bool, standing: Standing) -> Home:
    return Home(
        id=seen.landing.manifest.id,
        size=seen.landing.manifest.total_bytes,
        used_ms=seen.used_ms,
        pinned=standing.pinned,
        active=active,
        under_way=standing.under_way,
        preheated=standing.preheated,
    )


def _newest(path: Path) -> int:
    """When the file was last written or, where the file system keeps it, read. 0 if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return int(max(status.st_atime, status.st_mtime) * 1000)
