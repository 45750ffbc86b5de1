"""Copies of requests for a version that is tried in the shadow: its answers are compared, and no caller gets them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import replace

from platform_core.serving.comparison import compare
from platform_core.serving.routing import choose, to_canary
from webapp.router.connections import Connections, Lost, Unreachable, Unsendable
from webapp.router.incoming import Incoming, now_ms
from webapp.router.state import State, Upstream
from webapp.serving.values import Route, SampledAnswer

log = logging.getLogger(__name__)
MOST_AT_ONCE = 32  # of one router; further requests have no copy
LARGEST_ANSWER = 64 << 10  # a longer one is not compared
SECONDS = 60.0  # after which a copy counts as failed
_COPIED = ("/predict", "/infer", "/completions")


class Shadowing:
    """A copy is sent once the caller was answered, so that nobody waits for it."""

    def __init__(self, state: State, connections: Connections, rng: random.Random) -> None:
        self._state, self._connections, self._rng = state, connections, rng
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def settled(self) -> None:
        """Returns once the copies under way were answered."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wants(self, route: Route, incoming: Incoming) -> bool:
        """Whether a copy of this request is due."""
        if not route.shadow or len(self._tasks) >= MOST_AT_ONCE:
            return False
        path = incoming.path.partition("?")[0]
        return path.endswith(_COPIED) and to_canary(route.shadow, self._rng.random(), incoming.key)

    def begin(self, route: Route, incoming: Incoming, answered: SampledAnswer, sampled: bool) -> None:
        """`answered`: by the version in use. Its shadow's answer is sampled where it was `sampled`."""
        task = asyncio.ensure_future(self._copy(route, incoming, answered, sampled))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _copy(self, route: Route, incoming: Incoming, answered: SampledAnswer, sampled: bool) -> None:
        current = self._state.routes.get((route.team, route.name))
        if current is None or not current.shadow:
            return  # it ended meanwhile
        ready = {one.address.id: one for one in self._state.ready(current, canary=True)}
        draws = self._rng.random(), self._rng.random()
        chosen = choose([one.target for one in ready.values()], draws, now_ms=now_ms(), key=incoming.key)
        if chosen is None:
            return
        upstream = ready[chosen.id]
        began = time.perf_counter()
        upstream.outstanding += 1
        try:
            async with asyncio.timeout(SECONDS):
                status, answer = await self._ask(upstream, incoming)
        except (Lost, Unsendable, TimeoutError) as error:
            log.info("a shadow of %s did not answer: %s", route.name, error)
            upstream.circuit = upstream.circuit.failed(now_ms())
            upstream.ready = upstream.ready and not isinstance(error, Unreachable)
            status, answer = 502, b""
        finally:
            upstream.outstanding -= 1
        latency_ms, version = (time.perf_counter() - began) * 1000, upstream.address.version_id
        found = compare(answered.answer, answer) if status == 200 else None
        self._state.count_shadow(route, version, now_ms(), latency_ms, found, failed=status >= 500)
        if sampled and status == 200:
            self._state.sample(replace(answered, version_id=version, answer=answer, collected=False))

    async def _ask(self, upstream: Upstream, incoming: Incoming) -> tuple[int, bytes]:
        address = upstream.address
        response = await self._connections.request(
            (address.host, address.port),
            incoming.method,
            incoming.path,
            incoming.headers_for(address),
            incoming.body,
        )
        try:
            parts, size = [], 0
            async for part in response.parts():
                size += len(part)
                if size <= LARGEST_ANSWER:
                    parts.append(part)
        finally:
            self._connections.done(response)
        upstream.circuit = upstream.circuit.succeeded()
        return response.status, b"".join(parts) if size <= LARGEST_ANSWER else b""
