"""Requests that two servers could read differently never reach a replica: the router's own server refuses them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn

from webapp.operations.programs import ROUTER

POST = b"POST /endpoints/vision/mlp/predict HTTP/1.1\r\nhost: router\r\n"


class Recorder:
    """Stands where the application does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        self.asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def served(unused_tcp_port: int) -> AsyncIterator[tuple[int, Recorder]]:
    recorder, parser = Recorder(), ROUTER[ROUTER.index("--http") + 1]
    config = uvicorn.Config(recorder, port=unused_tcp_port, http=parser, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield unused_tcp_port, recorder
    server.should_exit = True
    await running


async def answered(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


HIDDEN = b"GET /endpoints/vision/mlp/hidden HTTP/1.1\r\nhost: router\r\n\r\n"
AMBIGUOUS = {
    "length and chunked": b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"content-length: 0\r\ncontent-length: 70\r\n\r\n",
    "one length twice": b"content-length: 0\r\ncontent-length: 0\r\n\r\n",
    "a list of lengths": b"content-length: 0, 70\r\n\r\n",
    "a signed length": b"content-length: +0\r\n\r\n",
    "a space before the colon": b"content-length : 70\r\n\r\n",
    "a folded header": b"x-a: 1\r\n content-length: 70\r\n\r\n",
    "a folded length": b"content-length:\r\n 70\r\n\r\n",
    "another coding": b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "a bare line feed": b"x-a: 1\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a bare return": b"x-a: 1\rtransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a signed chunk": b"transfer-encoding: chunked\r\n\r\n+0\r\n\r\n",
}


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_an_ambiguous_request_is_refused_with_all_that_follows(
    served: tuple[int, Recorder], rest: bytes
) -> None:
    port, recorder = served
    answer = await answered(port, POST + rest + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not any(path.endswith("/hidden") for path in recorder.asked)


async def test_a_plain_request_and_the_one_after_it_are_answered(served: tuple[int, Recorder]) -> None:
    port, recorder = served
    answer = await answered(port, POST + b"content-length: 2\r\n\r\nhi" + HIDDEN)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert [path.rpartition("/")[2] for path in recorder.asked] == ["predict", "hidden"]
