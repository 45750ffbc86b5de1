"""The router passes answers on as before, and hands over a bounded number of those that an endpoint samples."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from webapp.router.forwarding import LARGEST_SAMPLE, Forwarding
from webapp.router.incoming import Incoming
from webapp.router.state import MOST_SAMPLES, State
from webapp.serving.values import ReplicaAddress, Route, SampledAnswer


@pytest.fixture
async def replica() -> AsyncIterator[int]:
    """Answers each request with its own body; the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            status = b"500 Wrong" if b"/wrong" in head else b"200 OK"
            body = await reader.readexactly(length)
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: %d\r\n\r\n" % length + body)
            await writer.drain()

    async def until_it_leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(until_it_leaves, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def asked(
    port: int, percent: int, *bodies: bytes, path: str = "/predict"
) -> tuple[list[bytes], list[SampledAnswer]]:
    """What the callers got, and what was sampled."""
    address = ReplicaAddress("r-1", 1, "mv-1", False, "job-1", 1, "127.0.0.1", port)
    route = Route("ep-1", "vision", "mlp", "mv-1", 0, False, 0, False, (address,), percent, ("age",))
    state = State()
    await state.replace([route])
    state.upstreams["r-1", 1].ready = True

    async def nobody_wakes(endpoint_id: str) -> None:
        raise AssertionError(endpoint_id)

    async def caller_stays() -> Any:
        await asyncio.Event().wait()

    forwarding, got = Forwarding(state, nobody_wakes), []
    for body in bodies:
        parts: list[bytes] = []

        async def send(message: dict[str, Any], parts: list[bytes] = parts) -> None:
            parts.append(message.get("body", b""))

        await forwarding.forward(route, Incoming("POST", path, {}, body), caller_stays, send)
        got.append(b"".join(parts))
    forwarding.close()
    return got, state.sampled()


async def test_every_caller_gets_the_answer_and_so_many_are_sampled_at_most(replica: int) -> None:
    bodies = [json.dumps({"inputs": [n]}).encode() for n in range(MOST_SAMPLES + 5)]
    got, sampled = await asked(replica, 100, *bodies)
    assert got == bodies
    assert [one.request for one in sampled] == [one.answer for one in sampled] == bodies[:MOST_SAMPLES]
    assert {(one.endpoint_id, one.version_id, one.redact) for one in sampled} == {("ep-1", "mv-1", ("age",))}


async def test_nothing_is_sampled_by_default_nor_what_failed_nor_what_is_large(replica: int) -> None:
    assert (await asked(replica, 0, b"{}"))[1] == []
    assert (await asked(replica, 100, b"{}", path="/wrong"))[1] == []
    large = b"x" * (LARGEST_SAMPLE + 1)
    got, sampled = await asked(replica, 100, large)
    assert (got, sampled) == ([large], [])
