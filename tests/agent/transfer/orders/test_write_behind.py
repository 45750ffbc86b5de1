"""The disk may be behind, but at the end nothing waits for more to come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.transfer.disk import landing as landings
from agent.transfer.disk.landing import Landing
from agent.transfer.orders.write_behind import WriteBehind
from platform_core.distribution.content.manifest import Manifest, ManifestBuilder

LONG = 60.0


@pytest.fixture
def landing(manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Landing]:
    monkeypatch.setattr(landings, "BATCH_SECONDS", LONG)
    made = Landing(manifest, tmp_path / "landing", tmp_path / "landing" / "files")
    made.open()
    yield made
    made.close()


async def test_the_last_piece_of_a_source_does_not_wait_for_others(landing: Landing) -> None:
    written: list[int] = []
    size = landing.piece_at(0).size
    async with asyncio.timeout(LONG / 2):
        async with WriteBehind(landing, written.append, lambda error: None) as disk:
            await disk.write(0, [memoryview(bytes(size))])
    assert written == [size]
    assert landing.has(0)


async def test_small_files_do_not_wait_for_each_other_s_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landings, "BATCH_SECONDS", LONG)
    builder = ManifestBuilder("dataset", 8 << 20, 4 << 20)
    for number in range(20):
        builder.feed(f"{number}.txt", b"little")
    landing = Landing(builder.finish(), tmp_path / "landing", tmp_path / "landing" / "files")
    landing.open()
    written: list[int] = []
    async with asyncio.timeout(LONG / 2):
        async with WriteBehind(landing, written.append, lambda error: None) as disk:
            for number in range(20):
                await disk.write(number, [memoryview(b"little")])
    assert written == [6] * 20
    landing.close()


async def test_whoever_gives_up_waiting_takes_nothing_from_others(landing: Landing) -> None:
    """Pieces of two sources are written together, and one of them is left while the disk is busy."""
    written: list[int] = []
    may_write = threading.Event()
    write = landing._write

    def slowly(pieces: Sequence[Any]) -> None:
        assert may_write.wait(LONG)
        write(pieces)

    async def source(*numbers: int) -> None:
        async with WriteBehind(landing, written.append, lambda error: None) as disk:
            for number in numbers:
                await disk.write(number, [memoryview(bytes(landing.piece_at(number).size))])

    landing._batches._work = slowly
    left, other = asyncio.create_task(source(0)), asyncio.create_task(source(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    may_write.set()
    async with asyncio.timeout(LONG / 2):
        await other
        assert await landing.arrived(0, LONG)
    assert landing.has(1)
    assert len(written) == 2
