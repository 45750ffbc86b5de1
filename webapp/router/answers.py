"""One connection to a replica, and the answers on it as httptools parses them: what is ambiguous is an error."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import cast

import httptools

LARGEST_HEAD = 64 << 10
MOST_BUFFERED = 256 << 10  # of a body that the caller takes more slowly than the replica sends it

Headers = list[tuple[bytes, bytes]]


class Malformed(Exception):
    """What the replica sent is no answer, or more than one reading of it is possible."""


class Reading:
    """The callbacks of the parser for one answer. Those that only announce it (1xx) are passed over."""

    def __init__(self, headless_body: bool) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self.parts = 0, Headers(), deque[bytes]()
        self.head = self.whole = self.keeps = self.surplus = False
        self.buffered = self._read = 0
        self._bodiless = headless_body

    def feed(self, data: bytes) -> None:
        """Raises Malformed."""
        self._read += len(data)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.whole:
                self.surplus = True
                return
            raise Malformed(str(error.__context__ or error)) from error
        if self._read > LARGEST_HEAD:
            part = "trailer" if self.head else "head"
            raise Malformed(f"the {part} of the answer has more than {LARGEST_HEAD >> 10} KiB")

    def end(self) -> None:
        """The replica closed the connection: the end of an answer that names no length. Raises EOFError."""
        names = {name for name, _ in self.headers}
        if self.whole or (self.head and not names & {b"content-length", b"transfer-encoding"}):
            self.whole = True
            return
        raise EOFError

    def take(self) -> bytes:
        part = self.parts.popleft()
        self.buffered -= len(part)
        return part

    def on_message_begin(self) -> None:
        self.surplus = self.whole

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            raise Malformed(f"the transfer encoding {value!r} is not chunked")
        if not self.head:  # later ones are trailers
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status < 200:
            self.headers.clear()
        elif not self.head:
            self.status, self.head = status, True
            self.keeps = self.parser.should_keep_alive()
            self.whole = self._bodiless

    def on_body(self, data: bytes) -> None:
        if self.whole:
            self.surplus = True
            return
        self._read = 0  # what comes without a byte of a body is counted
        self.parts.append(data)
        self.buffered += len(data)

    def on_message_complete(self) -> None:
        self.whole = self.head


class Connection(asyncio.Protocol):
    """A request has it for itself until its answer was read. What comes while nobody asked closes it."""

    def __init__(self) -> None:
        self.since = 0.0  # when it became idle
        self.closed = self._paused = False
        self._transport: asyncio.Transport | None = None
        self._reading: Reading | None = None
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        reading = self._reading
        if reading is None or self._error is not None:
            self.close()
            return
        try:
            reading.feed(data)
        except Malformed as error:
            self._fail(error)
            return
        if reading.buffered > MOST_BUFFERED and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._reading is None:
            return
        try:
            if exc is not None:
                raise exc
            self._reading.end()
        except (OSError, EOFError) as error:
            self._error = self._error or error
        self._wake()

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def ask(self, request: bytes, headless_body: bool) -> Reading:
        assert self._transport is not None
        self._reading = Reading(headless_body)
        self._transport.write(request)
        return self._reading

    async def head(self, reading: Reading) -> None:
        """Until the head of the answer is there. Raises Malformed, OSError or EOFError."""
        while not reading.head:
            await self._more()

    async def parts(self, reading: Reading, seconds: float) -> AsyncIterator[bytes]:
        """Raises as `head` does, and TimeoutError where nothing comes for so long."""
        while reading.parts or not reading.whole:
            if reading.parts:
                part = reading.take()
                self._resume(reading)
                yield part
            else:
                async with asyncio.timeout(seconds):
                    await self._more()

    def free(self, reading: Reading) -> bool:
        """Ends the answer; returns whether the connection may take another request."""
        self._reading = None
        return reading.whole and reading.keeps and not (reading.surplus or self.closed or self._error)

    def _resume(self, reading: Reading) -> None:
        if self._paused and not self.closed and reading.buffered <= MOST_BUFFERED:
            assert self._transport is not None
            self._paused = False
            self._transport.resume_reading()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        if self.closed:
            raise EOFError
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        if self._error is not None:
            raise self._error

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
