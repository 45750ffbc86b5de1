"""While a disk is stuck, or a large piece is hashed, the node goes on with everything else.

Each of the calls that may take long is held until the event loop says "go on". One that is made on the loop itself can
never hear it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.transfer.disk import landing as landing_module
from agent.transfer.disk.holdings import Holdings
from agent.transfer.disk.landing import HASHED_AT_ONCE, Landing
from agent.transfer.disk.whole_files import WholeFiles
from agent.transfer.disk.writer import Writer
from platform_core.distribution.content.manifest import ManifestBuilder
from tests.agent.transfer.rig import GatedStore, Node, completed, content, delivery
from trainmaster.store.http import HttpStore

PIECE = 2 * HASHED_AT_ONCE
DATA = {"weights.bin": bytes(range(256)) * (3 * PIECE // 256)}
LONG_SECONDS = 5.0  # for a call that is never told to go on


class Held:
    """In place of a function: its first call waits for the loop."""

    def __init__(self, function: Callable[..., Any], applies: Callable[..., bool]) -> None:
        self._function, self._applies = function, applies
        self._loop = asyncio.get_running_loop()
        self._told = threading.Event()
        self.began = asyncio.Event()
        self.heard: list[bool] = []

    def __call__(self, *args: Any, **more: Any) -> Any:
        if not self.heard and self._applies(*args, **more):
            self.heard.append(False)
            self._loop.call_soon_threadsafe(self.began.set)
            self.heard[0] = self._told.wait(LONG_SECONDS)
        return self._function(*args, **more)

    async def let_go(self) -> None:
        async with asyncio.timeout(20):
            await self.began.wait()
        self._told.set()


def holding(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    applies: Callable[..., bool] = lambda *_, **__: True,
) -> Held:
    held = Held(getattr(owner, name), applies)
    # A function, so that a class makes a method of it.
    monkeypatch.setattr(owner, name, lambda *args, **more: held(*args, **more))
    return held


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Writer, "write"),
        (landing_module, "_is_right"),
        (WholeFiles, "_add"),
        (Landing, "open"),
        (Landing, "settle"),
        (Holdings, "check_space"),
        (HttpStore, "stream_range"),
    ],
    ids=["write", "hash", "whole-file", "make-files", "rename", "free-space", "store"],
)
async def test_the_loop_turns_while_a_delivery_is_held_up_by(
    owner: object, name: str, nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = holding(monkeypatch, owner, name)
    await delivered(nodes[0], held)


async def test_the_loop_turns_while_it_is_looked_up_where_the_model_lies(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    after_it_is_opened = iter((False, True))
    held = holding(monkeypatch, Landing, "homes", lambda *_: next(after_it_is_opened, False))
    await delivered(nodes[0], held)


async def test_the_loop_turns_while_what_a_neighbour_wants_is_read_from_the_disk(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = nodes[:2]
    await delivered(before)
    read = Landing.read_into

    def from_a_cold_disk(*args: Any, cached_only: bool = False) -> None:
        if cached_only:
            raise BlockingIOError
        read(*args)

    monkeypatch.setattr(Landing, "read_into", from_a_cold_disk)
    held = holding(monkeypatch, Landing, "read_into", lambda *_, cached_only=False: not cached_only)
    after.begin(delivery(manifest(), "http://127.0.0.1:1", before))
    await held.let_go()
    assert completed(await after.ended())
    assert held.heard == [True]


async def delivered(node: Node, held: Held | None = None) -> None:
    store = GatedStore(DATA)
    store.open()
    with store.running():
        node.begin(delivery(manifest(), store.url))
        if held is not None:
            await held.let_go()
        end = await node.ended()
    assert completed(end), end
    assert content(node.home()) == DATA
    assert held is None or held.heard == [True], "it was called on the event loop"


def manifest() -> Any:
    builder = ManifestBuilder("model", PIECE, PIECE)
    for path, data in DATA.items():
        builder.feed(path, data)
    return builder.finish()
