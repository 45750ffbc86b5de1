"""Hints on their way out of the process."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from channels.layers import get_channel_layer

from webapp.sockets import outbox, subjects


class Layer:
    """Notes what is sent; the first message waits until it may go."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.may_go = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.loop = asyncio.get_running_loop()
        await asyncio.wait_for(self.may_go.wait(), 10)
        if message["subject"] == "job:broken":
            raise OSError("no route")
        self.sent.append((message["subject"], message["data"]))


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Layer]:
    assert outbox.flush(10)
    layer = Layer()
    monkeypatch.setattr(outbox, "get_channel_layer", lambda: layer)
    yield layer
    assert outbox.flush(10)


def begun(layer: Layer) -> asyncio.AbstractEventLoop:
    """The first message is on its way."""
    while layer.loop is None:
        os.sched_yield()
    return layer.loop


def test_what_comes_while_another_message_is_under_way_is_one_message_a_subject(layer: Layer) -> None:
    outbox.put("job:first", {})
    loop = begun(layer)
    outbox.put("job:a", {"step": 1, "lines": [1]})
    outbox.put("cluster", {})
    outbox.put("job:a", {"step": 2, "lines": [2]})
    loop.call_soon_threadsafe(layer.may_go.set)
    assert outbox.flush(10)
    assert layer.sent == [("job:first", {}), ("job:a", {"step": 2, "lines": [1, 2]}), ("cluster", {})]


def test_one_that_is_lost_does_not_hold_up_the_others(layer: Layer) -> None:
    layer.may_go.set()
    outbox.put("job:broken", {})
    outbox.put("job:sound", {})
    assert outbox.flush(10)
    assert layer.sent == [("job:sound", {})]


def test_a_forked_child_has_an_outbox_of_its_own(layer: Layer) -> None:
    layer.may_go.set()
    outbox.put("job:parent", {})
    assert outbox.flush(10)
    child = os.fork()
    if child == 0:
        outbox.put("job:child", {})
        os._exit(0 if outbox.flush(10) and layer.sent[-1] == ("job:child", {}) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def test_over_the_real_layer_it_arrives_and_the_time_of_the_change_is_known() -> None:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(subjects.group("job:x"), channel)
    outbox.put("job:x", {"step": 5})
    message = await asyncio.wait_for(layer.receive(channel), 10)
    assert (message["subject"], message["data"]) == ("job:x", {"step": 5})
    assert subjects.changed_since("job:x", 1)
