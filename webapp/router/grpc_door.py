"""gRPC to the endpoints: a call of the Open Inference Protocol goes the way of its HTTP form, with all that it has.

Replicas need no second port, and retries, canaries, rates, samples and sessions are the same on both doors. The model
of a call is TEAM/ENDPOINT; the token of the team is its metadata `authorization: Bearer …`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from trainmaster_wire.inference.service import Headers, Reply
from webapp.router.connections import Lost
from webapp.router.incoming import Incoming
from webapp.router.refusals import Refused

if TYPE_CHECKING:
    from webapp.router.application import Router


class Endpoints:
    def __init__(self, router: Router) -> None:
        self._router = router

    async def ready(self) -> bool:
        return True

    async def ask(self, model: str, method: str, path: str, headers: Headers, body: bytes) -> Reply:
        known = {name: value.decode("latin-1") for name, value in headers.items()}
        team, _, name = model.partition("/")
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        try:
            route, _ = await self._router.route(f"/endpoints/{team}/{name}/v2", known)
            incoming = Incoming(method, f"/v2/models/{route.name}{path}", known, body)
            await self._router.forward(route, incoming, stays, send)
        except Refused as refused:
            wait = {b"retry-after": str(refused.retry_after).encode()} if refused.retry_after else {}
            return Reply(refused.status, wait, json.dumps({"error": str(refused)}).encode())
        except Lost as lost:  # within its answer
            return Reply(502, {}, json.dumps({"error": f"the replica was lost: {lost}"}).encode())
        first, *rest = messages
        return Reply(first["status"], dict(first["headers"]), b"".join(one.get("body", b"") for one in rest))


async def stays() -> Any:
    """A caller who leaves cancels the whole call instead."""
    await asyncio.Event().wait()
