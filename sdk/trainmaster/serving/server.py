"""The model server as an ASGI application: plain JSON, KServe v2, and completions for texts."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from trainmaster.serving import protocols, tensors
from trainmaster.serving.engine import DeadlinePassed, Engine, ModelError, QueueFull
from trainmaster.serving.http import (
    JSON_TYPE,
    TOKEN_HEADER,
    ClientLeft,
    HttpError,
    Receive,
    Send,
    answer,
    answer_bytes,
    answer_error,
    parsed,
    read_body,
    unless_left,
)
from trainmaster.serving.outputs import json_bytes

log = logging.getLogger(__name__)
MOST_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, under the names that callers see. Without a token everybody on the network may call."""

    name: str
    version: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    headers: dict[bytes, bytes]
    receive: Receive
    send: Send


class ModelServer:
    """Ready from the first request on: it is made once the model is loaded. `drain` makes it unready."""

    def __init__(self, engine: Engine, served: Served) -> None:
        self._engine, self._served = engine, served
        self.draining = False
        model = f"/v2/models/{served.name}"
        routes: dict[tuple[str, str], Callable[[Call], Awaitable[None]]] = {
            ("POST", "/predict"): self._predict,
            ("POST", "/v1/completions"): self._completions,
            ("GET", "/v1/models"): self._models,
            ("GET", "/v2"): self._server,
            ("GET", "/v2/health/live"): self._live,
            ("GET", "/v2/health/ready"): self._ready,
            ("GET", "/stats"): self._stats,
        }
        for path in (model, f"{model}/versions/{served.version}"):
            routes |= {
                ("GET", path): self._metadata,
                ("GET", f"{path}/ready"): self._ready,
                ("POST", f"{path}/infer"): self._infer,
            }
        self._routes = routes

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if scope["type"] != "http":
            return None
        call = Call(dict(scope["headers"]), receive, send)
        try:
            await self._route(scope["method"], scope["path"])(self._allowed(call, scope["path"]))
        except ClientLeft:
            return None
        except Exception as error:
            await answer_error(send, _refusal(error))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            kind = message["type"].rpartition(".")[2]
            if kind == "shutdown":
                self.draining = True
                self._engine.close()
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return

    def _route(self, method: str, path: str) -> Callable[[Call], Awaitable[None]]:
        handler = self._routes.get((method, path))
        if handler is None:
            known = sorted({known for _, known in self._routes})
            raise HttpError(404, f"there is no {method} {path}; this server has {', '.join(known)}")
        return handler

    def _allowed(self, call: Call, path: str) -> Call:
        token = self._served.token
        if token and not path.startswith("/v2/health/"):
            given = call.headers.get(TOKEN_HEADER, b"")
            if not hmac.compare_digest(given, token.encode()):
                raise HttpError(
                    401, "this replica answers only the platform's router; call the endpoint there"
                )
        return call

    async def _predict(self, call: Call) -> None:
        document = parsed(await read_body(call.receive))
        outputs = await self._run(call, self._prepared(protocols.plain_rows(document)))
        body = json_bytes({"outputs": list(outputs), "version": self._served.version})
        await answer_bytes(call.send, 200, body, JSON_TYPE)

    def _prepared(self, rows: list[Any]) -> list[Any]:
        """Raises ValueError for a row that the model refuses, ModelError where looking at it fails."""
        try:
            return [self._engine.runtime.prepare(row) for row in rows]
        except ValueError:
            raise
        except Exception as error:
            raise ModelError(f"{type(error).__name__}: {error}") from error

    async def _infer(self, call: Call) -> None:
        length = call.headers.get(b"inference-header-content-length")
        if length is not None and not length.isdigit():
            raise HttpError(400, "Inference-Header-Content-Length must be a whole number")
        body = await read_body(call.receive)
        document, rows = tensors.tensor_rows(body, int(length) if length is not None else None)
        outputs = await self._run(call, self._prepared(rows))
        name, version = self._served.name, self._served.version
        body, json_length = tensors.tensor_answer(document, name, version, outputs, length is not None)
        if length is None:
            return await answer_bytes(call.send, 200, body, JSON_TYPE)
        head = ((b"inference-header-content-length", str(json_length).encode()),)
        return await answer_bytes(call.send, 200, body, b"application/octet-stream", head)

    async def _run(self, call: Call, rows: list[Any]) -> Any:
        priority, deadline_ms = _urgency(call.headers)
        work = self._engine.predict(rows, priority=priority, deadline_ms=deadline_ms)
        if self._engine.idle:  # it runs at once: nothing is saved by looking whether the caller leaves
            return await work
        return await unless_left(work, call.receive)

    async def _completions(self, call: Call) -> None:
        if not self._engine.runtime.streams:
            raise HttpError(404, f"{self._served.name} has no texts; call /predict")
        document = parsed(await read_body(call.receive))
        row = protocols.completion(document)
        head = {"id": f"cmpl-{time.time_ns():x}", "object": "text_completion", "created": int(time.time()),
                "model": self._served.name}  # fmt: skip
        async with aclosing(self._engine.stream(row)) as parts:
            if document.get("stream"):
                await unless_left(self._stream(call.send, head, parts), call.receive)
                return
            text = await unless_left(_joined(parts), call.receive)
        choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
        await answer(call.send, 200, head | {"choices": [choice]})

    async def _stream(self, send: Send, head: dict[str, Any], parts: AsyncIterator[str]) -> None:
        """As server-sent events. A failure before the first part is an ordinary answer, later one an event."""
        first = await anext(parts, None)
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            if first is not None:
                await _event(send, head | {"choices": [_choice(first)]})
            async for part in parts:
                await _event(send, head | {"choices": [_choice(part)]})
            await _event(send, head | {"choices": [_choice("", "stop")]})
        except Exception as error:
            await _event(send, {"error": str(_refusal(error))})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    async def _models(self, call: Call) -> None:
        entry = {"id": self._served.name, "object": "model", "owned_by": "trainmaster"}
        await answer(call.send, 200, {"object": "list", "data": [entry]})

    async def _server(self, call: Call) -> None:
        document = {"name": "trainmaster", "version": "2", "extensions": ["binary_tensor_data"]}
        await answer(call.send, 200, document)

    async def _metadata(self, call: Call) -> None:
        runtime = self._engine.runtime
        document = {"name": self._served.name, "versions": [self._served.version], "platform": "trainmaster",
                    "inputs": [asdict(one) for one in runtime.inputs],
                    "outputs": [asdict(one) for one in runtime.outputs]}  # fmt: skip
        await answer(call.send, 200, document)

    async def _live(self, call: Call) -> None:
        await answer(call.send, 200, {"live": True})

    async def _ready(self, call: Call) -> None:
        await answer(call.send, 503 if self.draining else 200, {"ready": not self.draining})

    async def _stats(self, call: Call) -> None:
        await answer(call.send, 200, asdict(self._engine.statistics) | {"waiting": self._engine.waiting})


def _refusal(error: Exception) -> HttpError:
    """The answer for whatever was raised: every answer of this server is JSON."""
    match error:
        case HttpError():
            return error
        case QueueFull():
            return HttpError(429, str(error), error.retry_after)
        case DeadlinePassed():
            return HttpError(504, str(error))
        case ModelError():
            return HttpError(500, f"the model failed: {error}")
        case ValueError():
            return HttpError(400, str(error))
        case _:
            log.error("a request failed", exc_info=error)
            return HttpError(500, f"the server failed with a {type(error).__name__}; its log says where")


def _urgency(headers: dict[bytes, bytes]) -> tuple[int, int | None]:
    """By `X-Priority`, 0 goes first, and `X-Deadline-Ms`, after which the caller no longer waits."""
    priority, deadline = headers.get(b"x-priority", b"50"), headers.get(b"x-deadline-ms", b"")
    if not priority.isdigit() or int(priority) > MOST_PRIORITY:
        raise HttpError(400, f"X-Priority must be a whole number from 0 to {MOST_PRIORITY}")
    if not deadline:
        return int(priority), None
    if not deadline.isdigit():
        raise HttpError(400, "X-Deadline-Ms must be a whole number of milliseconds")
    return int(priority), time.time_ns() // 1_000_000 + int(deadline)


async def _joined(parts: AsyncIterator[str]) -> str:
    return "".join([part async for part in parts])


def _choice(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}


async def _event(send: Send, document: dict[str, Any]) -> None:
    body = b"data: " + json_bytes(document) + b"\n\n"
    await send({"type": "http.response.body", "body": body, "more_body": True})
