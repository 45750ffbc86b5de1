"""HTTP to replicas over connections that are kept."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from webapp.router.answers import Connection, Headers, Malformed, Reading

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = (
    600.0  # a replica that says nothing for so long is lost; a stream that goes on may take longer
)
KEPT_SECONDS = 30.0  # an idle connection; replicas keep theirs for longer
MOST_KEPT = 256  # of one replica
_TARGET = re.compile(r"/[!-~\x80-\xff]*")
_BREAKS = re.compile(rb"[\r\n\0]")

Place = tuple[str, int]


class Lost(Exception):
    """The replica did not answer, or not to the end."""


class Unreachable(Lost):
    """It takes no connections."""


class Unsendable(Exception):
    """A part of the request would begin a line, or a request, of its own."""


@dataclass(slots=True)
class Answer:
    """The head of an answer. Whoever has it reads `parts` and gives it back with `Connections.done`."""

    place: Place
    connection: Connection
    reading: Reading

    @property
    def status(self) -> int:
        return self.reading.status

    @property
    def headers(self) -> Headers:
        return self.reading.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises Lost where it ends too early."""
        try:
            async for part in self.connection.parts(self.reading, ANSWER_SECONDS):
                yield part
        except (OSError, EOFError, Malformed) as error:
            raise Lost(f"{described(error)} within the answer") from error


@dataclass(slots=True)
class Connections:
    """On one event loop. A request has a connection for itself until its answer was read."""

    _idle: dict[Place, deque[Connection]] = field(default_factory=lambda: defaultdict(deque))

    async def request(
        self, place: Place, method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> Answer:
        """The head of the answer, and its body as it comes. Raises Lost, or Unsendable before anything is sent."""
        request = composed(place, method, path, headers, body)
        connection = await self._connection(place)
        try:
            reading = connection.ask(request, headless_body=method == "HEAD")
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.head(reading)
        except (OSError, EOFError, Malformed) as error:
            connection.close()
            raise Lost(f"{described(error)} before the answer") from error
        except BaseException:  # the caller left
            connection.close()
            raise
        return Answer(place, connection, reading)

    def done(self, answer: Answer) -> None:
        """Keeps the connection for the next request, or closes it."""
        idle = self._idle[answer.place]
        if answer.connection.free(answer.reading) and len(idle) < MOST_KEPT:
            answer.connection.since = time.monotonic()
            idle.append(answer.connection)
        else:
            answer.connection.close()

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def _connection(self, place: Place) -> Connection:
        idle, now = self._idle[place], time.monotonic()
        while idle:
            connection = idle.pop()
            if not connection.closed and now - connection.since < KEPT_SECONDS:
                return connection
            connection.close()
        if not idle:
            self._idle.pop(place, None)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, opened = await asyncio.get_running_loop().create_connection(Connection, *place)
                return opened
        except OSError as error:  # a timeout is one
            raise Unreachable(
                f"{place[0]}:{place[1]} takes no connections: {type(error).__name__}"
            ) from error


def composed(
    place: Place, method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> bytes:
    """The bytes of a request. Raises Unsendable."""
    if not (method.isascii() and method.isalpha()) or not _TARGET.fullmatch(path):
        raise Unsendable(f"{method[:20]!r} {path[:200]!r} is no request that a replica could be asked")
    lines = [f"{method} {path} HTTP/1.1\r\nhost: {place[0]}:{place[1]}\r\n".encode("latin-1")]
    for name, value in headers:
        if _BREAKS.search(name) or _BREAKS.search(value):
            raise Unsendable(f"the header {name.decode('latin-1')!r} has a line break or a null byte")
        lines.append(b"%b: %b\r\n" % (name, value))
    lines.append(b"content-length: %d\r\n\r\n" % len(body))
    return b"".join(lines) + body


def described(error: Exception) -> str:
    return f"{type(error).__name__} ({error})" if isinstance(error, Malformed) else type(error).__name__
