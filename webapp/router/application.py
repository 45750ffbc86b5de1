"""The router as an ASGI application: /endpoints/TEAM/NAME/… goes to a replica of that endpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

from platform_core.addresses import check_address
from platform_core.errors import TrainmasterError
from trainmaster_wire.inference.service import make_server
from webapp.base.pacing import Body, TooLarge, TooSlow
from webapp.router.callers import Callers, may_call
from webapp.router.duties import Duties
from webapp.router.forwarding import Forwarding
from webapp.router.grpc_door import Endpoints
from webapp.router.incoming import Incoming
from webapp.router.refusals import Refused
from webapp.router.state import State
from webapp.serving.values import Route

log = logging.getLogger(__name__)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
LARGEST_BODY = 64 << 20
GRPC_GRACE_SECONDS = 20


class Router:
    def __init__(self) -> None:
        self._callers = Callers()
        self._state: State | None = None
        self._duties: Duties | None = None
        self._forwarding: Forwarding | None = None
        self._grpc: Any = None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if scope["type"] != "http":
            return None
        try:
            await self._answer(scope, receive, send)
        except Refused as refused:
            await refuse(send, refused)
        return None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"].rpartition(".")[2]
            if kind == "startup":
                self._state = State()
                self._duties = Duties(self._state)
                self._forwarding = Forwarding(self._state, self._duties.wake)
                await self._duties.begin()
                await self._open_grpc()
            elif self._duties is not None and self._forwarding is not None:
                if self._grpc is not None:
                    await self._grpc.stop(GRPC_GRACE_SECONDS)
                await self._duties.end()
                self._forwarding.close()
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return

    async def _open_grpc(self) -> None:
        if settings.ROUTER_GRPC_LISTEN:
            self._grpc = make_server(Endpoints(self), settings.ROUTER_GRPC_LISTEN)
            await self._grpc.start()

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        path: str = scope["raw_path"].decode("latin-1").partition("?")[0]
        query = scope["query_string"].decode("latin-1")
        if path == "/livez":
            return await answer(send, 200, {"live": True})
        try:
            check_address(path, query)
        except TrainmasterError as error:
            raise Refused(error.kind.http, error.sentence) from error
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        route, rest = await self.route(path, headers)
        body = await read_body(receive)
        incoming = Incoming(scope["method"], rest + (f"?{query}" if query else ""), headers, body)
        await self.forward(route, incoming, receive, send)
        return None

    async def forward(self, route: Route, incoming: Incoming, receive: Receive, send: Send) -> None:
        assert self._forwarding is not None, "uvicorn starts the lifespan first"
        await self._forwarding.forward(route, incoming, receive, send)

    async def route(self, path: str, headers: dict[bytes, str]) -> tuple[Route, str]:
        """The endpoint that a path names, for those who may call it. Others must not learn that it exists."""
        assert self._state is not None, "uvicorn starts the lifespan first"
        parts = path.split("/", 4)
        if len(parts) < 5 or parts[1] != "endpoints":
            raise Refused(404, f"there is no {path}; the address of an endpoint is /endpoints/TEAM/NAME/…")
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        actor = await self._callers.actor(token.strip()) if scheme.lower() == "bearer" else None
        if actor is None:
            raise Refused(401, "send a token of the team: Authorization: Bearer tm_…")
        team, name = parts[2], parts[3]
        route = self._state.routes.get((team, name))
        if route is None or not may_call(actor, team):
            raise Refused(404, f"there is no endpoint {name} in team {team}")
        wait = self._callers.wait_seconds(route.endpoint_id, actor.name, route.rate_limit)
        if wait:
            sentence = f"{name} takes {route.rate_limit} requests a minute of each caller"
            raise Refused(429, sentence, max(1, round(wait)))
        return route, f"/{parts[4]}"


async def read_body(receive: Receive) -> bytes:
    parts, body = [], Body(receive, LARGEST_BODY)
    while True:
        try:
            message = await body()
        except TooLarge:
            sentence = f"the body has more than {LARGEST_BODY >> 20} MiB; send fewer rows at once"
            raise Refused(413, sentence) from None
        except TooSlow:
            raise Refused(408, "the body stopped coming, or came too slowly") from None
        if message["type"] == "http.disconnect":
            raise Refused(499, "the caller left")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def refuse(send: Send, refused: Refused) -> None:
    extra = [(b"retry-after", str(refused.retry_after).encode())] if refused.retry_after else []
    await answer(send, refused.status, {"error": str(refused)}, extra)


async def answer(send: Send, status: int, document: Any, extra: Any = ()) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
