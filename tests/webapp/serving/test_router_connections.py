"""The router's connections to replicas: each form of an answer, kept connections, and replicas that are lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from webapp.router.connections import Connections, Lost, Unreachable, Unsendable


@pytest.fixture(
    params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"], scope="module"
)
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """uvicorn runs the router on uvloop."""
    policy: asyncio.AbstractEventLoopPolicy = request.param()
    return policy


Replica = Callable[..., Awaitable[tuple[str, int]]]


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    """Starts a server that answers the requests of a connection with these bytes, then closes it; None: it stays."""
    servers = []

    async def start(*answers: bytes | None) -> tuple[str, int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                if answer is None:
                    await reader.read()
                else:
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(answer)
            writer.close()

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        host, port = servers[-1].sockets[0].getsockname()
        return host, port

    yield start
    for server in servers:
        server.close()


async def ask(connections: Connections, place: tuple[str, int], method: str = "GET") -> tuple[int, bytes]:
    answer = await connections.request(place, method, "/predict", [(b"x-a", b"1")], b"")
    try:
        return answer.status, b"".join([part async for part in answer.parts()])
    finally:
        connections.done(answer)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"hi"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n1;x=y\r\n!\r\n0\r\n\r\n", b"hi!"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nto the end", b"to the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"hi"),
    ],
    ids=["length", "chunked", "until it closes", "after a continue"],
)
async def test_each_form_of_an_answer_is_read(replica: Replica, answer: bytes, body: bytes) -> None:
    assert await ask(Connections(), await replica(answer)) == (200, body)


async def test_an_answer_without_a_body_ends_at_its_head(replica: Replica) -> None:
    place = await replica(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", OK)
    connections = Connections()
    assert await ask(connections, place, "HEAD") == (200, b"")
    assert await ask(connections, place) == (200, b"hi")


async def test_a_connection_is_kept_for_the_next_request(replica: Replica) -> None:
    first, second = OK, b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond"
    place, connections = await replica(first, second, None), Connections()
    assert await ask(connections, place) == (200, b"hi")
    assert await ask(connections, place) == (200, b"second")
    connections.close()


async def test_a_kept_connection_that_the_replica_closed_is_not_used_again(replica: Replica) -> None:
    place, connections = await replica(OK), Connections()
    assert await ask(connections, place) == (200, b"hi")
    while not all(one.closed for idle in connections._idle.values() for one in idle):
        await asyncio.sleep(0)
    assert await ask(connections, place) == (200, b"hi")


async def test_one_that_was_left_in_the_middle_is_not_used_again(replica: Replica) -> None:
    place, connections = await replica(OK + b"rest", None), Connections()
    answer = await connections.request(place, "GET", "/", [], b"")
    connections.done(answer)
    assert not any(connections._idle.values())


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\ncont", b"no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"],
    ids=["none", "half a head", "another protocol", "half a body"],
)  # fmt: skip
async def test_an_answer_that_ends_too_early_is_lost(replica: Replica, answer: bytes) -> None:
    with pytest.raises(Lost):
        await ask(Connections(), await replica(answer))


async def test_a_replica_that_has_gone_is_unreachable(replica: Replica, unused_tcp_port: int) -> None:
    with pytest.raises(Unreachable, match="takes no connections"):
        await ask(Connections(), ("127.0.0.1", unused_tcp_port))


LENGTH, CHUNKED = b"content-length: 2\r\n", b"transfer-encoding: chunked\r\n"
START = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (LENGTH + CHUNKED, "Transfer-Encoding can't be present with Content-Length"),
        (CHUNKED + LENGTH, "Content-Length can't be present with Transfer-Encoding"),
        (LENGTH + b"content-length: 3\r\n", "Duplicate Content-Length"),
        (b"x: a\r\n folded\r\n" + LENGTH, "whitespace after header value"),
        (b"content-length: +2\r\n", "Invalid character in Content-Length"),
        (b"transfer-encoding: gzip\r\n", "is not chunked"),
        (b"x: " + b"a" * (1 << 20) + b"\r\n" + LENGTH, "more than 64 KiB"),
    ],
    ids=["length, chunked", "chunked, length", "two lengths", "folded", "signed", "compressed", "large head"],
)
async def test_an_ambiguous_answer_is_lost_and_ends_its_connection(
    replica: Replica, head: bytes, sentence: str
) -> None:
    connections = Connections()
    with pytest.raises(Lost, match=sentence):
        await ask(connections, await replica(START + head + b"\r\nhi", None))
    assert not any(connections._idle.values())


async def test_what_follows_an_answer_never_answers_the_next_request(replica: Replica) -> None:
    """A replica that answers twice would give the second answer to another caller."""
    place, connections = await replica(OK + START + b"content-length: 6\r\n\r\nforged", None), Connections()
    assert await ask(connections, place) == (200, b"hi")
    assert not any(connections._idle.values())


async def test_what_comes_while_nobody_asked_closes_the_connection() -> None:
    asked, more = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        if not asked.is_set():
            asked.set()
            await more.wait()
            writer.write(START + b"content-length: 6\r\n\r\nforged")
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        place, connections = server.sockets[0].getsockname(), Connections()
        assert await ask(connections, place) == (200, b"hi")
        more.set()
        while not connections._idle[place][0].closed:
            await asyncio.sleep(0)
        assert await ask(connections, place) == (200, b"hi")
        connections.close()


async def test_a_slow_caller_stops_the_replica(replica: Replica) -> None:
    size = 8 << 20
    place = await replica(START + b"content-length: %d\r\n\r\n" % size + b"x" * size, None)
    connections = Connections()
    answer = await connections.request(place, "GET", "/", [], b"")
    await asyncio.sleep(0.3)
    assert answer.reading.buffered < 1 << 20
    assert sum([len(part) async for part in answer.parts()]) == size
    connections.done(answer)
    connections.close()


SMUGGLED = "/versions/1 HTTP/1.1\r\nhost: x\r\n\r\nGET /stats"


@pytest.mark.parametrize(
    ("path", "header"),
    [(SMUGGLED, b"1"), ("/a b", b"1"), ("//a\n", b"1"), ("/", b"1\r\nx: y"), ("/", b"1\ny"), ("/", b"\0")],
)
async def test_a_request_within_a_request_is_not_sent(replica: Replica, path: str, header: bytes) -> None:
    place = await replica(OK)
    with pytest.raises(Unsendable):
        await Connections().request(place, "GET", path, [(b"x-a", header)], b"")
