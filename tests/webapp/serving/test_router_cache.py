"""Equal predictions of a deterministic model are answered from the memory of the router."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from webapp.router import cache
from webapp.router.cache import Cache
from webapp.router.forwarding import Forwarding
from webapp.router.incoming import Incoming
from webapp.router.state import State
from webapp.serving.values import ReplicaAddress, Route

Ask = Callable[..., Any]


class Replica:
    """Answers with the number of the request."""

    def __init__(self) -> None:
        self.asked, self.status = 0, b"200 OK"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_body = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n%d"
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                self.asked += 1
                writer.write(with_body % (self.status, self.asked))
        except asyncio.IncompleteReadError:
            writer.close()


@pytest.fixture
async def replica() -> AsyncIterator[tuple[Replica, Route]]:
    found = Replica()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = ReplicaAddress("r-1", 1, "mv-1", False, "job-1", 1, "127.0.0.1", port)
    yield found, Route("ep-1", "vision", "mlp", "mv-1", 0, False, 0, False, (address,), cache_seconds=60)
    server.close()


@pytest.fixture
async def ask(replica: tuple[Replica, Route]) -> AsyncIterator[Ask]:
    _, route = replica
    state = State()
    await state.replace([route])
    state.upstreams["r-1", 1].ready = True

    async def nobody_wakes(endpoint_id: str) -> None:
        raise AssertionError(endpoint_id)

    async def stays() -> Any:
        await asyncio.Event().wait()

    forwarding = Forwarding(state, nobody_wakes)

    async def call(body: bytes, path: str = "/predict", **changes: Any) -> tuple[bytes, dict[bytes, bytes]]:
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        asked = replace(route, **changes)
        await forwarding.forward(asked, Incoming("POST", path, {}, body), stays, send)
        return b"".join(one.get("body", b"") for one in messages), dict(messages[0]["headers"])

    yield call
    forwarding.close()


async def test_the_same_prediction_asks_its_replica_once(replica: tuple[Replica, Route], ask: Ask) -> None:
    first, _ = await ask(b"a")
    again, headers = await ask(b"a")
    assert (first, again, headers[b"x-cache"], headers[b"content-type"]) == (
        b"1",
        b"1",
        b"hit",
        b"application/json",
    )
    assert (await ask(b"b"))[0] == b"2"
    assert (await ask(b"a", "/v2/models/mlp/infer"))[0] == b"3"
    assert replica[0].asked == 3


async def test_what_may_differ_is_asked_each_time(replica: tuple[Replica, Route], ask: Ask) -> None:
    await ask(b"a")
    assert (await ask(b"a", "/v1/completions"))[0] == b"2", "a text is drawn by chance"
    assert (await ask(b"a", share=1_000))[0] == b"3", "a canary is judged by its requests"
    assert (await ask(b"a", stable_id="mv-2"))[0] == b"4", "another version answers otherwise"
    assert (await ask(b"a", cache_seconds=0))[0] == b"5"
    replica[0].status = b"500 Wrong"
    await ask(b"c")
    replica[0].status = b"200 OK"
    assert (await ask(b"c"))[0] == b"7", "a failure is not kept"


def test_answers_end_and_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, now = Cache(), [0.0]
    monkeypatch.setattr(cache.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(cache, "MOST_BYTES", 4)
    for key in (b"a", b"b"):
        kept.put(key, [], b"xx", 10)
    assert kept.get(b"a") is not None
    kept.put(b"c", [], b"xx", 10)
    assert (kept.get(b"b"), kept.get(b"a") is not None) == (None, True)
    now[0] = 11.0
    assert kept.get(b"a") is None
    kept.put(b"d", [], b"x" * (cache.LARGEST + 1), 10)
    assert kept.get(b"d") is None
