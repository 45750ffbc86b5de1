"""How much of the store is asked for at once, and what becomes of one that fails oddly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.transfer.disk.landing import Landing
from agent.transfer.store import sources
from agent.transfer.store.ranges import Came
from agent.transfer.store.sources import AHEAD, StoreSource
from platform_core.distribution.content.manifest import Manifest, Piece
from platform_core.node.observed import TransferState
from tests.agent.transfer.rig import PIECE, GatedStore, Node, delivery
from trainmaster.store import Store
from trainmaster.store.http import HttpStore

LANES = 4  # pieces that do not lie side by side: each is a range
LATE = LANES * 5
ENOUGH_PIECES = 2


class Script(StoreSource):
    """Answers a range when it is told to; those that nobody holds back, at the next turn of the loop."""

    def __init__(self, url: str, executor: ThreadPoolExecutor) -> None:
        super().__init__(url, executor)
        self.asked: list[int] = []
        self.held: dict[int, asyncio.Event] = {}
        self.came: Came = lambda size: None

    async def _read(self, store: Store, landing: Landing, first: Piece, size: int, came: Came) -> bytes:
        number = landing.number(first.chunk, first.index)
        self.asked.append(number)
        self.came = came
        await (self.held[number].wait() if number in self.held else asyncio.sleep(0))
        came(size)
        return bytes(size)


@pytest.fixture
def landing(manifest: Manifest, tmp_path: Path) -> Iterator[Landing]:
    made = Landing(manifest, tmp_path / "landing", tmp_path / "landing" / "files")
    made.open()
    yield made
    made.close()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    monkeypatch.setattr(sources, "ENOUGH_BYTES", ENOUGH_PIECES * PIECE)
    with ThreadPoolExecutor(1) as executor:
        yield Script(tmp_path.as_uri(), executor)


async def numbers_of(pieces: AsyncIterator[tuple[int, list[memoryview]]], got: list[int]) -> None:
    async for number, _ in pieces:
        got.append(number)


async def at_rest() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_the_next_is_asked_for_while_those_on_their_way_come_and_before_they_are_here(
    source: Script, landing: Landing
) -> None:
    lane = range(LANES, landing.count, LANES)
    source.held = {number: asyncio.Event() for number in lane}
    got: list[int] = []
    following = asyncio.create_task(numbers_of(source.pieces(landing, lane), got))
    while not source.asked:
        await asyncio.sleep(0)
    on_their_way = ENOUGH_PIECES + 1
    assert source.asked == list(lane[:on_their_way])
    source.came(PIECE - 1)
    await at_rest()
    assert source.asked == list(lane[:on_their_way]), "more than enough is still to come"
    source.came(1)
    await at_rest()
    assert (source.asked, got) == (list(lane[: on_their_way + 1]), [])
    source.held[lane[0]].set()
    await at_rest()
    assert (len(source.asked), got) == (on_their_way + 2, [lane[0]]), (
        "what ends is not late: one for its bytes, no more"
    )
    for event in source.held.values():
        event.set()
    await following
    assert got == list(lane)


async def test_the_first_comes_alone_so_that_it_is_here_sooner(
    source: Script, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ENOUGH_BYTES", PIECE // 2)
    lane = range(LANES, landing.count, LANES)
    source.held = {number: asyncio.Event() for number in lane}
    following = asyncio.create_task(numbers_of(source.pieces(landing, lane), []))
    while not source.asked:
        await asyncio.sleep(0)
    await at_rest()
    assert source.asked == list(lane[:1])
    source.came(PIECE - PIECE // 2)
    await at_rest()
    assert source.asked == list(lane[:2]), "before the first is here"
    for event in source.held.values():
        event.set()
    await following


@pytest.mark.parametrize("enough", [ENOUGH_PIECES * PIECE, 1])
async def test_one_that_is_late_does_not_keep_the_link_idle_and_what_waits_for_it_is_bounded(
    source: Script, landing: Landing, monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    monkeypatch.setattr(sources, "ENOUGH_BYTES", enough)
    lane = range(0, landing.count, LANES)
    source.held = {LATE: asyncio.Event()}
    got: list[int] = []
    following = asyncio.create_task(numbers_of(source.pieces(landing, lane), got))
    while LATE not in source.asked:
        await asyncio.sleep(0)
    await at_rest()
    here = lane.index(LATE)
    assert got == list(lane[:here])
    pieces = max(1, enough // PIECE)
    assert source.asked == list(lane[: here + AHEAD * pieces + 1])
    source.held[LATE].set()
    await following
    assert got == list(lane)


async def test_who_stops_listening_asks_for_nothing_more(source: Script, landing: Landing) -> None:
    lane = range(0, landing.count, LANES)
    pieces = source.pieces(landing, lane)
    assert (await anext(pieces))[0] == lane[0]
    await pieces.aclose()
    asked = list(source.asked)
    source.came(landing.manifest.total_bytes)
    await at_rest()
    assert source.asked == asked


async def test_an_error_that_nobody_foresaw_ends_the_delivery_as_any_other_of_its_source(
    nodes: list[Node], store: GatedStore, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpStore, "stream_range", lambda *_, **__: {}["odd"])
    nodes[0].begin(delivery(manifest, store.url))
    end = await nodes[0].ended()
    assert (end.state, end.error_code, end.retries) == (TransferState.FAILED, "source_unavailable", 4)
    assert "store cannot be followed: KeyError('odd')" in end.error
