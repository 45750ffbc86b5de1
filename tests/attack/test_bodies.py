"""Bodies and headers that never end, from people whom nobody knows."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from platform_core.units import MIB
from tests.attack.conftest import Web
from webapp.base import http_server, pacing
from webapp.base.pacing import Body, TooLarge, TooSlow

ADDRESSES = (
    "/login/", "/", "/jobs/code/", "/jobs/submit/", "/api/v1/jobs", "/api/v1/uploads/u/files/a.bin", "/nowhere",
    "/api/2.0/mlflow/runs/log-batch", "/api/2.0/mlflow-artifacts/artifacts/1/r/a", "/metrics", "/healthz",
    "/api/2.0/mlflow-artifacts/parts/forged", "/admin/login/", "/static/x", "/graphql",
)  # fmt: skip
STRANGERS = {
    "nobody": "",
    "a wrong token": "Authorization: Bearer tm_wrong\r\n",
    "a wrong session": "Cookie: trainmaster_session_8000=forged; trainmaster_session=forged\r\n",
}
PIECE = b"a" * MIB
pytestmark = pytest.mark.django_db


def sent(web: Web, head: str, pieces: Iterator[bytes]) -> tuple[bytes, int]:
    """The first bytes of the answer, and how much of the body the server took before it hung up."""
    size = 0
    with closing(socket.create_connection(("127.0.0.1", web.port), timeout=30)) as connection:
        connection.sendall(head.encode())
        with suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
                size += len(piece)
        answer = b""
        with suppress(OSError):
            answer = connection.recv(4096)
        return answer, size


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_large_body_of_a_stranger_is_refused_before_it_is_read(
    web: Web, address: str, stranger: str, method: str
) -> None:
    before = web.written()
    head = f"{method} {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n{stranger}Content-Length: {400 * MIB}\r\n\r\n"
    answer, size = sent(web, head, (PIECE for _ in range(400)))
    assert answer.startswith(b"HTTP/1.1 401 ") or not answer  # reset before it was read
    assert size < 16 * MIB  # what the buffers of both sides hold
    assert web.written() - before < MIB


@pytest.mark.parametrize("address", ["/login/", "/api/v1/jobs", "/api/v1/uploads/u/files/a.bin"])
def test_chunks_of_a_stranger_are_counted(web: Web, address: str) -> None:
    before = web.written()
    head = f"POST {address} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, size = sent(web, head, (b"100000\r\n" + PIECE + b"\r\n" for _ in range(400)))
    assert size < 16 * MIB
    assert web.written() - before < MIB


def test_nobody_is_asked_to_go_on_with_what_is_refused(web: Web) -> None:
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {MIB}\r\n\r\n"
    answer, _ = sent(web, head, iter(()))
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"100 Continue" not in answer


def test_each_address_takes_of_somebody_known_what_it_needs(web: Web, token: str) -> None:
    known = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    answer, size = sent(
        web,
        f"POST /api/v1/jobs HTTP/1.1\r\n{known}Content-Length: {400 * MIB}\r\n\r\n",
        (PIECE for _ in range(400)),
    )
    assert not answer or (b" 413 " in answer and size < 16 * MIB)
    address = "/api/v1/uploads/unknown/files/a.bin"
    body = (PIECE for _ in range(12))
    answer, size = sent(web, f"PUT {address} HTTP/1.1\r\n{known}Content-Length: {12 * MIB}\r\n\r\n", body)
    assert (answer[9:12], size) == (
        b"404",
        12 * MIB,
    )  # such a large one was read, and there is no such upload


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"GET /livez HTTP/1.1\r\nX-Filler: ", b"a" * 65536),
        (b"GET /livez HTTP/1.1\r\n", b"X-Filler: a\r\n" * 5000),
        (b"GET /livez HTTP/1.1\r\n", b"a" * 65536),
        (b"GET /", b"a" * 65536),
        (b"GET /livez?", b"a" * 65536),
        (b"POST /login/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a" * 65536),
        (b"POST /login/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 65536),
    ],
    ids=["one header", "many headers", "one name", "a path", "a query", "a trailer", "an extension of a chunk"],
)  # fmt: skip
def test_what_stands_before_and_behind_a_body_has_an_end(web: Web, first: bytes, piece: bytes) -> None:
    before = web.memory()
    _, size = sent(web, first.decode(), (piece for _ in range(1000)))
    assert size < 16 * MIB
    assert web.memory() - before < 32 * MIB


async def test_headers_that_do_not_come_have_their_time(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    import uvicorn

    async def nobody(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        raise AssertionError("nothing was asked")

    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    config = uvicorn.Config(
        nobody, port=unused_tcp_port, http=http_server.BoundedHttp, lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    for begun in (b"", b"GET / HTTP/1.1\r\nX: "):
        reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
        writer.write(begun)
        async with asyncio.timeout(30):
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
    server.should_exit = True
    await running


async def whole(body: Body) -> None:
    for _ in range(1000):
        await body()


async def test_a_body_that_does_not_come_or_comes_slowly_has_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(pacing, "WINDOW", 0.05)

    async def silent() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def slow() -> dict[str, object]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"a", "more_body": True}

    async def fast() -> dict[str, object]:
        return {"type": "http.request", "body": b"a" * 1000, "more_body": True}

    with pytest.raises(TooSlow):
        await Body(silent, 100)()
    body = Body(slow, 100_000)
    with pytest.raises(TooSlow):
        await whole(body)
    body = Body(fast, 100_000)
    with pytest.raises(TooLarge):
        await whole(body)
