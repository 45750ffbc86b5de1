"""As much of HTTP as the model server needs, over ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
TOKEN_HEADER = b"x-trainmaster-replica"  # by which a replica knows the router
JSON_TYPE = b"application/json"
LARGEST_BODY = 64 << 20


class HttpError(Exception):
    def __init__(self, status: int, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.retry_after = status, retry_after


class ClientLeft(Exception):
    """The caller closed its connection before it was answered."""


async def read_body(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise HttpError(413, f"the body has more than {LARGEST_BODY >> 20} MiB; send fewer rows at once")
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def parsed(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)  # NaN too, which missing features are in rows that Python wrote
    except RecursionError as error:
        raise HttpError(400, "the body is nested too deeply") from error
    except ValueError as error:
        raise HttpError(400, f"the body is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise HttpError(400, "the body must be a JSON object")
    return document


async def unless_left(work: Coroutine[Any, Any, Any], receive: Receive) -> Any:
    """The result of `work`, which is cancelled when the caller closes its connection."""
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        task.cancel()
        left.cancel()


async def answer(send: Send, status: int, document: Any, extra: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    await answer_bytes(send, status, json.dumps(document).encode(), JSON_TYPE, extra)


async def answer_bytes(
    send: Send, status: int, body: bytes, kind: bytes, extra: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_error(send: Send, error: HttpError) -> None:
    extra = ((b"retry-after", str(error.retry_after).encode()),) if error.retry_after else ()
    sentence = str(error).encode("utf-8", "replace").decode()  # it may quote any bytes of a model
    await answer(send, error.status, {"error": sentence}, extra)
