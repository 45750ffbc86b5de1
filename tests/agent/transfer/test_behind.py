"""The disk may be behind, but at the end nothing waits for more to come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.transfer import landing as landings
from agent.transfer.behind import Behind
from agent.transfer.landing import Landing
from platform_core.distribution.manifest import Manifest

LONG = 60.0


@pytest.fixture
def landing(manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Landing]:
    monkeypatch.setattr(landings, "GATHERED_SECONDS", LONG)
    made = Landing(manifest, tmp_path / "landing", tmp_path / "landing" / "files")
    made.open()
    yield made
    made.close()


async def test_the_last_piece_of_a_source_does_not_wait_for_others(landing: Landing) -> None:
    written: list[int] = []
    size = landing.piece_at(0).size
    async with asyncio.timeout(LONG / 2):
        async with Behind(landing, written.append, lambda error: None) as disk:
            await disk.write(0, [memoryview(bytes(size))])
    assert written == [size]
    assert landing.has(0)
