"""Ranges of a store that stalls, breaks off or is slower than usual: cancelled, and resumed where they stood."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from agent.transfer.store.ranges import BLOCK, Ranges, Silent
from platform_core.distribution.content.manifest import Manifest
from platform_core.errors import TrainmasterError
from tests.agent.transfer.rig import CHUNK, QUICK, GatedStore, Node, completed, delivery, digests

DATA = bytes(range(256)) * (BLOCK // 64)  # four blocks
SILENCE = 0.4


@dataclass
class Script:
    """Answers each request as the next step says; then in full. Nothing is ever sent twice without being asked for."""

    steps: list[Callable[[int, int], Generator[bytes, None, None]]]
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, start: int, size: int) -> Generator[bytes, None, None]:
        self.asked.append((start, size))
        return (self.steps.pop(0) if self.steps else everything)(start, size)


def everything(start: int, size: int) -> Generator[bytes, None, None]:
    for at in range(start, start + size, BLOCK):
        yield DATA[at : min(at + BLOCK, start + size)]


def one_block(start: int, size: int) -> Generator[bytes, None, None]:
    yield DATA[start : start + min(size, BLOCK)]


@pytest.fixture
def forever() -> Iterator[threading.Event]:
    """What nobody sets before the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@contextmanager
def ranges() -> Iterator[Ranges]:
    executor = ThreadPoolExecutor(8)
    try:
        yield Ranges(executor, SILENCE)
    finally:
        executor.shutdown(wait=False)


def fetch(script: Script, offset: int = 0, size: int = len(DATA)) -> bytes:
    with ranges() as them:
        return asyncio.run(them.fetch(script, offset, size))


def test_a_range_that_falls_silent_is_resumed_from_where_it_stood(forever: threading.Event) -> None:
    def stalls(start: int, size: int) -> Generator[bytes, None, None]:
        yield from one_block(start, size)
        forever.wait(20)

    script = Script([stalls, stalls])
    assert fetch(script, 7, len(DATA) - 7) == DATA[7:]
    assert script.asked == [
        (7, len(DATA) - 7),
        (7 + BLOCK, len(DATA) - 7 - BLOCK),
        (7 + 2 * BLOCK, len(DATA) - 7 - 2 * BLOCK),
    ]


def test_one_that_breaks_off_is_resumed_at_once() -> None:
    def breaks(start: int, size: int) -> Generator[bytes, None, None]:
        yield from one_block(start, size)
        raise TrainmasterError("source_unavailable", source="s3://models/x", why="the connection was reset")

    script = Script([breaks])
    assert fetch(script) == DATA
    assert [start for start, _ in script.asked] == [0, BLOCK]


def test_a_store_from_which_nothing_comes_is_given_up_after_the_silence(forever: threading.Event) -> None:
    def silent(start: int, size: int) -> Generator[bytes, None, None]:
        forever.wait(20)
        yield b""

    script = Script([silent])
    with pytest.raises(Silent, match=r"nothing came for 0\.4 s"):
        fetch(script)
    assert len(script.asked) == 1, "a pause, and other sources, come first"


def test_what_a_store_refuses_is_not_asked_for_again_by_itself() -> None:
    def refuses(start: int, size: int) -> Generator[bytes, None, None]:
        raise TrainmasterError("source_unavailable", source="s3://models/x", why="it has changed")
        yield b""

    with pytest.raises(TrainmasterError, match="it has changed"):
        fetch(Script([refuses]))


def test_one_that_is_much_slower_than_the_others_gets_another_connection(forever: threading.Event) -> None:
    def trickles(start: int, size: int) -> Generator[bytes, None, None]:
        for at in range(start, start + size):
            yield DATA[at : at + 1]
            forever.wait(0.02)  # never silent

    slow = Script([trickles])

    async def together() -> bytes:
        with ranges() as them:
            lame = asyncio.create_task(them.fetch(slow, 0, len(DATA)))
            while not lame.done():
                assert await them.fetch(Script([]), 0, len(DATA)) == DATA
            return await lame

    assert asyncio.run(together()) == DATA
    (_, all_of_it), (start, rest) = slow.asked
    assert 0 < start < BLOCK
    assert start + rest == all_of_it, "nothing is read twice"


async def test_a_delivery_goes_on_after_the_store_stalled(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    node = nodes[0]
    await node.stop()
    node.trying = replace(QUICK, store_silence=SILENCE)
    await node.start()
    store.allow(CHUNK)
    node.begin(delivery(manifest, store.url))
    await node.until(lambda progress: progress.retries > 0)
    store.open()
    assert completed(await node.ended())
    assert digests(node.home()) == {entry.path: entry.sha256 for entry in manifest.files}
