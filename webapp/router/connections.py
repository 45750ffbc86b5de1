"""HTTP to replicas over connections that are kept: as much of it as a router needs, at little cost a request."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 600.0
KEPT_SECONDS = 30.0  # an idle connection; replicas keep theirs for longer
MOST_KEPT = 256  # of one replica
PART = 64 << 10
_BODILESS = (204, 304)

Headers = list[tuple[bytes, bytes]]


class Lost(Exception):
    """The replica did not answer, or not to the end."""


class Unreachable(Lost):
    """It takes no connections."""


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since: float = 0.0  # when it became idle


@dataclass(slots=True)
class Answer:
    """The head of an answer. Whoever has it reads `parts` and gives it back with `Connections.done`."""

    status: int
    headers: Headers
    place: tuple[str, int]
    connection: _Connection
    bodiless: bool
    whole: bool = False  # it was read to its end

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises Lost where it ends too early."""
        try:
            if not self.bodiless:
                async for part in _body(self.connection.reader, dict(self.headers)):
                    yield part
        except (OSError, EOFError, ValueError) as error:
            raise Lost(f"{type(error).__name__} within the answer") from error
        self.whole = True

    @property
    def keeps(self) -> bool:
        """Whether its connection may take another request."""
        return (
            self.whole
            and (b"connection", b"close") not in self.headers
            and not self.connection.reader.at_eof()
        )


@dataclass(slots=True)
class Connections:
    """On one event loop. A request has a connection for itself until its answer was read."""

    _idle: dict[tuple[str, int], deque[_Connection]] = field(default_factory=lambda: defaultdict(deque))

    async def request(
        self,
        place: tuple[str, int],
        method: str,
        path: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
    ) -> Answer:
        """The head of the answer, and its body as it comes. Raises Lost."""
        lines = [f"{method} {path} HTTP/1.1\r\nhost: {place[0]}:{place[1]}\r\n".encode("latin-1")]
        lines += [b"%b: %b\r\n" % pair for pair in headers]
        lines.append(b"content-length: %d\r\n\r\n" % len(body))
        connection = await self._connection(place)
        try:
            connection.writer.write(b"".join(lines) + body)
            async with asyncio.timeout(ANSWER_SECONDS):
                status, answered = await _head(connection.reader)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            connection.writer.close()
            raise Lost(f"{type(error).__name__} before the answer") from error
        except BaseException:  # the caller left
            connection.writer.close()
            raise
        bodiless = method == "HEAD" or status in _BODILESS
        return Answer(status, answered, place, connection, bodiless)

    def done(self, answer: Answer) -> None:
        """Keeps the connection for the next request, or closes it."""
        idle = self._idle[answer.place]
        if answer.keeps and len(idle) < MOST_KEPT:
            answer.connection.since = time.monotonic()
            idle.append(answer.connection)
        else:
            answer.connection.writer.close()

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.writer.close()
        self._idle.clear()

    async def _connection(self, place: tuple[str, int]) -> _Connection:
        idle, now = self._idle[place], time.monotonic()
        while idle:
            connection = idle.pop()
            if not connection.reader.at_eof() and now - connection.since < KEPT_SECONDS:
                return connection
            connection.writer.close()
        if not idle:
            self._idle.pop(place, None)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return _Connection(*await asyncio.open_connection(*place))
        except OSError as error:  # a timeout is one
            raise Unreachable(
                f"{place[0]}:{place[1]} takes no connections: {type(error).__name__}"
            ) from error


async def _head(reader: asyncio.StreamReader) -> tuple[int, Headers]:
    """The answer's, after those that only say that it will come."""
    while True:
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        status = int(first.split(b" ", 2)[1])
        if status >= 200:
            pairs = (line.partition(b":") for line in lines)
            return status, [(name.lower(), value.strip()) for name, _, value in pairs]


async def _body(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
    if b"content-length" in headers:
        left = int(headers[b"content-length"])
        while left:
            part = await _soon(reader.read(min(left, PART)))
            if not part:
                raise EOFError
            left -= len(part)
            yield part
    elif headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        while size := int((await _soon(reader.readline())).partition(b";")[0], 16):
            yield await _soon(reader.readexactly(size))
            await _soon(reader.readexactly(2))
        while (await _soon(reader.readline())).strip():
            pass  # trailers
    else:
        while part := await _soon(reader.read(PART)):
            yield part


async def _soon(reading: Coroutine[Any, Any, bytes]) -> bytes:
    """A replica that says nothing for so long is lost; a stream that goes on may take longer."""
    async with asyncio.timeout(ANSWER_SECONDS):
        return await reading
