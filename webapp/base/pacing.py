"""The body of a request as it comes, at a least rate and up to a most size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

SILENCE_SECONDS = 30.0
LEAST_RATE = 1 << 10  # bytes a second, over WINDOW seconds of waiting
WINDOW = 30.0


class TooLarge(Exception):
    """The body has more bytes than its address takes."""


class TooSlow(Exception):
    """The body comes too slowly, or not at all."""


class Body:
    """`receive` of an application. After the end of the body it waits for as long as the caller stays."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit = receive, limit
        self._size, self._waited, self._came = 0, 0.0, 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow from None
        self._count(len(message.get("body", b"")), time.monotonic() - began)
        self._whole = message["type"] != "http.request" or not message.get("more_body")
        return message

    def _count(self, size: int, seconds: float) -> None:
        self._size += size
        if self._size > self._limit:
            raise TooLarge
        self._waited, self._came = self._waited + seconds, self._came + size
        if self._waited >= WINDOW:
            if self._came < LEAST_RATE * self._waited:
                raise TooSlow
            self._waited, self._came = 0.0, 0
