"""What comes within a moment is worked on together, and is done in the order in which it came."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from agent.transfer.disk.batches import Batches

LONG = 60.0


def nothing(item: str) -> None: ...


def test_what_comes_within_a_moment_is_one_piece_of_work() -> None:
    batches: list[list[str]] = []

    async def story() -> None:
        gathering = Batches[str](lambda items: batches.append(list(items)), nothing, enough=100, seconds=0.05)
        await asyncio.gather(*(gathering.put(name, 1) for name in "abc"))

    asyncio.run(story())
    assert batches == [["a", "b", "c"]]


def test_enough_is_not_waited_for() -> None:
    batches: list[list[str]] = []

    async def story() -> None:
        gathering = Batches[str](lambda items: batches.append(list(items)), nothing, enough=4, seconds=LONG)
        await asyncio.gather(*(gathering.put(name, 2) for name in "abcd"))

    asyncio.run(story())
    assert batches == [["a", "b"], ["c", "d"]]


def test_nobody_else_is_coming() -> None:
    async def story() -> None:
        gathering = Batches[str](lambda items: None, nothing, enough=100, seconds=LONG)
        waiting = gathering.put("a", 1)
        gathering.flush()
        async with asyncio.timeout(LONG / 2):
            await waiting

    asyncio.run(story())


def test_what_came_first_is_done_first_though_it_takes_longer() -> None:
    first_may_end, second_ended = threading.Event(), threading.Event()
    done: list[str] = []

    def work(items: Sequence[str]) -> None:
        if "first" in items:
            assert first_may_end.wait(LONG)
        else:
            second_ended.set()

    async def story() -> None:
        gathering = Batches(work, done.append, enough=1, seconds=LONG)
        puts = [gathering.put(name, 1) for name in ("first", "second")]
        await asyncio.to_thread(second_ended.wait, LONG)
        await asyncio.sleep(0)
        assert not done
        first_may_end.set()
        await asyncio.gather(*puts)

    asyncio.run(story())
    assert done == ["first", "second"]


def test_work_that_fails_fails_for_each_and_for_nobody_after() -> None:
    def work(items: Sequence[str]) -> None:
        if "bad" in items:
            raise OSError("the disk is full")

    done: list[str] = []

    async def story() -> None:
        gathering = Batches(work, done.append, enough=2, seconds=LONG)
        ends = await asyncio.gather(
            *(gathering.put(name, 1) for name in ("good", "bad", "later", "last")), return_exceptions=True
        )
        assert [type(end) for end in ends] == [OSError, OSError, type(None), type(None)]

    asyncio.run(story())
    assert done == ["later", "last"]
