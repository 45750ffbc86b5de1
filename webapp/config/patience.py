"""A time limit for every request: a frozen PostgreSQL or Valkey accepts requests and answers none."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from webapp.base import problems

SECONDS = 30.0
UPLOADS = "/api/v1/uploads/"  # a large file has no time limit on its way into the store

Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class Patience:
    """Answers 503 when the application has sent nothing within the limit after the last byte of the request."""

    def __init__(self, application: Application, seconds: float = SECONDS) -> None:
        self._application = application
        self._seconds = seconds

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"].startswith(UPLOADS):
            await self._application(scope, receive, send)
            return
        received, begun, given_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def reading() -> Mapping[str, Any]:
            message = await receive()
            if not message.get("more_body", False):
                received.set()
            return message

        async def answering(message: Mapping[str, Any]) -> None:
            if not given_up.is_set():
                begun.set()
                await send(message)

        work = asyncio.ensure_future(self._application(scope, reading, answering))
        try:
            await _first(work, received)
            await _first(work, begun, self._seconds)
            if work.done() or begun.is_set():
                await work
                return
            given_up.set()
            await _refuse(scope, send)
        finally:
            work.cancel()


async def _first(work: asyncio.Future[Any], event: asyncio.Event, seconds: float | None = None) -> None:
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({work, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
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
