"""A link that several models share, on a clock of the test's own."""

from __future__ import annotations

import asyncio
import heapq
from math import inf

import pytest

from agent.transfer.peers.link import Link
from platform_core.distribution.deployments.sharing import Share

BLOCK = 10_000


class Wire:
    """A wire of so many bytes per second, which serves whoever asks in turn."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free_at = rate, 0.0

    async def send(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + size / self._rate
        await asyncio.sleep(self._free_at - now)


class QuickLoop(asyncio.SelectorEventLoop):
    """Where nobody has to do anything, the time passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, heapq.nsmallest(1, self._scheduled)[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def moved(seconds: float, link: Link, wire: float, wanted: dict[str, float]) -> dict[str, int]:
    """Bytes of each model after so many seconds: each asks for the next block once it has the last, no more than its
    source gives."""
    got = dict.fromkeys(wanted, 0)

    async def pull(name: str, cable: Wire, source: Wire) -> None:
        while True:
            await asyncio.gather(cable.send(BLOCK), source.send(BLOCK))
            await link.take(name, BLOCK)
            got[name] += BLOCK

    async def all_of_them() -> None:
        cable = Wire(wire)
        tasks = [asyncio.create_task(pull(name, cable, Wire(rate))) for name, rate in wanted.items()]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        runner.run(all_of_them())
    return got


def test_a_link_of_known_capacity_is_full_and_shared_by_weight() -> None:
    link = Link(1_000_000)
    link.order("light", Share(10))
    link.order("heavy", Share(30))
    got = moved(20, link, 10e6, {"light": inf, "heavy": inf})
    assert sum(got.values()) == pytest.approx(20e6, rel=0.05)
    assert 2.4 < got["heavy"] / got["light"] < 3.4


def test_without_a_known_capacity_unequal_weights_share_what_the_wire_gives() -> None:
    link = Link()
    link.order("light", Share(10))
    link.order("heavy", Share(30))
    got = moved(20, link, 1e6, {"light": inf, "heavy": inf})
    assert sum(got.values()) > 18e6
    assert got["heavy"] / got["light"] > 2


def test_what_one_cannot_use_the_other_has() -> None:
    link = Link(1_000_000)
    link.order("heavy", Share(90))
    got = moved(20, link, 10e6, {"light": inf, "heavy": 100_000})
    assert got["light"] > 15e6


def test_a_team_has_its_cap_and_a_deployment_alone_all_that_is_left() -> None:
    link = Link()
    for name in ("a", "b"):
        link.order(name, Share(team="vision", team_cap=200_000))
    got = moved(20, link, 10e6, {"a": inf, "b": inf, "c": inf})
    assert got["a"] + got["b"] == pytest.approx(4e6, rel=0.1)
    assert got["c"] > 30e6


@pytest.mark.parametrize("pause", [0.2, 3, 40, 10_000])
def test_what_moved_before_a_pause_does_not_hold_back_who_comes_after_it(pause: float) -> None:
    """Of another weight: they would share what was seen of the link, and nothing moved over it in the pause."""
    link, took = Link(), []
    link.order("early", Share(10))
    link.order("late", Share(1))

    async def one_after_the_other() -> None:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(70_000)  # the machine has been up for long
        for _ in range(2):
            await link.take("early", 100_000)
        await asyncio.sleep(pause)
        began = clock()
        for _ in range(3):
            await link.take("late", 4 << 20)
            took.append(clock() - began)

    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        runner.run(one_after_the_other())
    assert took[-1] < 2


def test_a_cap_holds_for_what_comes_seldom() -> None:
    link = Link()
    link.order("a", Share(cap=100_000))
    moved_by: list[float] = []

    async def seldom() -> None:
        for _ in range(4):
            await link.take("a", 5_000_000)
            moved_by.append(asyncio.get_running_loop().time())
            await asyncio.sleep(25)

    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        runner.run(seldom())
    assert moved_by == pytest.approx([0, 50, 100, 150], abs=1)


def test_a_link_without_caps_holds_nobody_back() -> None:
    assert moved(10, Link(), 1e6, {"a": inf})["a"] == pytest.approx(10e6, rel=0.01)


def test_who_gives_up_while_he_waits_costs_those_behind_him_nothing() -> None:
    """Followers go elsewhere whenever a neighbour fails; each of them waited for a piece of its own."""
    link = Link()
    link.order("a", Share(cap=100_000))
    passed: list[float] = []

    async def take() -> None:
        await link.take("a", 1_000_000)
        passed.append(asyncio.get_running_loop().time())

    async def most_give_up() -> None:
        await take()  # passes at once, and is paid for by those behind it
        leaving = [asyncio.create_task(take()) for _ in range(10)]
        await asyncio.sleep(1)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        await asyncio.gather(take(), take())

    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        runner.run(most_give_up())
    assert passed == pytest.approx([0, 10, 20], abs=1)
