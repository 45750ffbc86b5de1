"""The gRPC of one model server: each call asks the ASGI application beside it, in the same process."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import uvicorn

from trainmaster.serving.server import ModelServer
from trainmaster_wire.inference.service import Headers, Reply, make_server


class OwnModel:
    """Callers on a node show the token of the replica as metadata, like those over HTTP."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    async def ready(self) -> bool:
        return not self._server.draining

    async def ask(self, model: str, method: str, path: str, headers: Headers, body: bytes) -> Reply:
        messages: list[Any] = []
        incoming = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return incoming.pop() if incoming else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            messages.append(message)

        scope = {
            "type": "http", "method": method, "path": f"/v2/models/{model}{unquote(path)}",
            "headers": list(headers.items()),
        }  # fmt: skip
        await self._server(scope, receive, send)
        first, *rest = messages
        return Reply(first["status"], dict(first["headers"]), b"".join(one.get("body", b"") for one in rest))


class BothDoors(uvicorn.Server):
    """HTTP, and gRPC on another port for as long as HTTP is served."""

    def __init__(self, config: uvicorn.Config, model: ModelServer, listen: str) -> None:
        super().__init__(config)
        self._model, self._listen = model, listen
        self._grpc: Any = None

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._grpc = make_server(OwnModel(self._model), self._listen)
        await self._grpc.start()

    async def shutdown(self, sockets: Any = None) -> None:
        if self._grpc is not None:
            await self._grpc.stop(self.config.timeout_graceful_shutdown)
        await super().shutdown(sockets)
