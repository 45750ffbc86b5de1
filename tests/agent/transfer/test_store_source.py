"""How many ranges of the store are asked for at once, and what becomes of one that fails oddly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.transfer.landing import Landing
from agent.transfer.progress import TransferState
from agent.transfer.sources import AHEAD, MOST_IN_FLIGHT, StoreSource
from platform_core.distribution.manifest import Manifest
from tests.agent.transfer.rig import GatedStore, Node, delivery
from trainmaster.store import Store
from trainmaster.store.http import HttpStore

LANES = 4  # pieces that do not lie side by side: each is a range
LATE = LANES * 5


class Script(StoreSource):
    """Answers a range when it is told to; those that nobody holds back, at the next turn of the loop."""

    def __init__(self, url: str, executor: ThreadPoolExecutor) -> None:
        super().__init__(url, executor)
        self.asked: list[int] = []
        self.on_their_way = self.most = 0
        self.held: dict[int, asyncio.Event] = {}

    async def _read(self, store: Store, landing: Landing, run: range) -> bytes:
        self.asked.append(run[0])
        self.on_their_way += 1
        self.most = max(self.most, self.on_their_way)
        try:
            await (self.held[run[0]].wait() if run[0] in self.held else asyncio.sleep(0))
        finally:
            self.on_their_way -= 1
        return bytes(landing.piece_at(run[0]).size)


@pytest.fixture
def landing(manifest: Manifest, tmp_path: Path) -> Iterator[Landing]:
    made = Landing(manifest, tmp_path / "landing", tmp_path / "landing" / "files")
    made.open()
    yield made
    made.close()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Script]:
    with ThreadPoolExecutor(1) as executor:
        yield Script(tmp_path.as_uri(), executor)


async def numbers_of(pieces: AsyncIterator[tuple[int, list[memoryview]]], got: list[int]) -> None:
    async for number, _ in pieces:
        got.append(number)


async def at_rest() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_the_first_goes_alone_and_never_are_more_on_their_way_than_allowed(
    source: Script, landing: Landing
) -> None:
    lane = range(0, landing.count, LANES)
    source.held = {number: asyncio.Event() for number in lane}
    got: list[int] = []
    following = asyncio.create_task(numbers_of(source.pieces(landing, lane), got))
    while not source.asked:
        await asyncio.sleep(0)
    await at_rest()
    assert source.asked == [lane[0]]
    for number in lane:
        source.held[number].set()
        await at_rest()
    await following
    assert (got, source.most) == (list(lane), MOST_IN_FLIGHT)


async def test_one_that_is_late_does_not_keep_the_link_idle_and_what_waits_for_it_is_bounded(
    source: Script, landing: Landing
) -> None:
    lane = range(0, landing.count, LANES)
    source.held = {LATE: asyncio.Event()}
    got: list[int] = []
    following = asyncio.create_task(numbers_of(source.pieces(landing, lane), got))
    while LATE not in source.asked:
        await asyncio.sleep(0)
    await at_rest()
    here = lane.index(LATE)
    assert got == list(lane[:here])
    assert source.asked == list(lane[: here + AHEAD * MOST_IN_FLIGHT])
    source.held[LATE].set()
    await following
    assert got == list(lane)


async def test_who_stops_listening_asks_for_nothing_more(source: Script, landing: Landing) -> None:
    lane = range(0, landing.count, LANES)
    pieces = source.pieces(landing, lane)
    assert (await anext(pieces))[0] == lane[0]
    await pieces.aclose()
    asked = list(source.asked)
    await at_rest()
    assert (source.asked, source.on_their_way) == (asked, 0)


async def test_an_error_that_nobody_foresaw_ends_the_delivery_as_any_other_of_its_source(
    nodes: list[Node], store: GatedStore, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpStore, "stream_range", lambda *_, **__: {}["odd"])
    nodes[0].begin(delivery(manifest, store.url))
    end = await nodes[0].ended()
    assert (end.state, end.error_code, end.retries) == (TransferState.FAILED, "source_unavailable", 4)
    assert "store cannot be followed: KeyError('odd')" in end.error
