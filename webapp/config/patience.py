"""A time limit for every request: a frozen PostgreSQL or Valkey accepts requests and answers none."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from webapp.base import problems

log = logging.getLogger(__name__)
SECONDS = 30.0
UPLOADS = "/api/v1/uploads/"  # a large file has no time limit on its way into the store

Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class Patience:
    """Answers 503 when the application has sent nothing within the limit after the last byte of the request, and gives
    up a caller who takes nothing of the answer for as long.

    An application that is given up hears what it hears of every caller who has gone, and ends as it does then: to
    cancel it would leave its connection to the database with nobody.
    """

    def __init__(self, application: Application, seconds: float = SECONDS) -> None:
        self._application = application
        self._seconds = seconds

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"].startswith(UPLOADS):
            await self._application(scope, receive, send)
            return
        received, begun, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def reading() -> Mapping[str, Any]:
            message = await _unless(gone, receive())
            if message is None or not message.get("more_body", False):
                received.set()
            return message or {"type": "http.disconnect"}

        async def answering(message: Mapping[str, Any]) -> None:
            if gone.is_set():
                return
            begun.set()
            try:
                async with asyncio.timeout(self._seconds):
                    await send(message)
            except TimeoutError:
                gone.set()

        work = asyncio.ensure_future(self._application(scope, reading, answering))
        try:
            await _first(work, received)
            await _first(work, begun, self._seconds)
            if work.done() or begun.is_set():
                await asyncio.shield(work)
                return
            gone.set()
            await _refuse(scope, send)
        finally:
            gone.set()
            if not work.done():
                _leaving.add(work)
                work.add_done_callback(_left)


_leaving: set[asyncio.Future[Any]] = set()  # applications that were given up, until they have ended


def _left(work: asyncio.Future[Any]) -> None:
    _leaving.discard(work)
    if not work.cancelled() and (error := work.exception()) is not None:
        log.warning("a request that was given up ended with %s", type(error).__name__)


async def _unless(event: asyncio.Event, message: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The message, or None where the event comes first."""
    waiting = asyncio.ensure_future(message)
    try:
        await _first(waiting, event)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()


async def _first(work: asyncio.Future[Any], event: asyncio.Event, seconds: float | None = None) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({work, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _refuse(scope: dict[str, Any], send: Send) -> None:
    body = problems.document(TrainmasterError("unavailable", what="This page"))
    rest = scope["path"].startswith("/api/")
    kind, text = (
        (problems.MEDIA_TYPE, json.dumps(body))
        if rest
        else ("text/plain; charset=utf-8", body["detail"] + "\n")
    )
    headers = [(b"content-type", kind.encode()), (b"retry-after", b"10")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
