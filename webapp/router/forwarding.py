"""One request to one replica, and to another one when that is lost before it has answered."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from platform_core.serving.routing import choose, to_canary
from webapp.router.cache import LARGEST, Cache
from webapp.router.connections import Answer, Connections, Lost, Unreachable, Unsendable
from webapp.router.incoming import HOP, REQUEST_ID, Incoming, now_ms
from webapp.router.refusals import Refused
from webapp.router.shadowing import Shadowing
from webapp.router.state import State, Upstream
from webapp.serving.values import Route, SampledAnswer

MOST_TRIES = 4
HOLD_SECONDS = 60.0  # a request may wait for a replica that starts
LARGEST_SAMPLE = 64 << 10  # of a request and of an answer whose features are kept
LOST = (502, 503)  # of a replica that drains: another one answers
CACHE = b"x-cache"  # "hit": no replica was asked
_REPLACED = HOP | {b"date", b"server", REQUEST_ID}
_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class Forwarding:
    def __init__(self, state: State, wake: Callable[[str], Awaitable[None]]) -> None:
        self._state, self._wake = state, wake
        self._connections, self._cache = Connections(), Cache()
        self._rng = random.Random()
        self._shadowing = Shadowing(state, self._connections, self._rng)

    async def settled(self) -> None:
        """Returns once no copy of a request is under way."""
        await self._shadowing.settled()

    def close(self) -> None:
        self._shadowing.close()
        self._connections.close()

    async def forward(self, route: Route, incoming: Incoming, receive: Any, send: Any) -> None:
        """Answers the request. Its replica hears at once when the caller leaves."""
        if await self._from_cache(route, incoming, send):
            return
        work = asyncio.ensure_future(self._tries(route, incoming, send))
        left = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            left.cancel()
            if not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work

    async def _from_cache(self, route: Route, incoming: Incoming, send: Any) -> bool:
        key = incoming.cache_key(route)
        kept = self._cache.get(key) if key else None
        if kept is None:
            return False
        headers = [*kept.headers, (REQUEST_ID, self._request_id(incoming).encode()), (CACHE, b"hit")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": kept.body})
        self._state.count(route, route.stable_id, now_ms(), 0.0, 0.0, failed=False)
        return True

    async def _tries(self, route: Route, incoming: Incoming, send: Any) -> None:
        tried: set[str] = set()
        canary = to_canary(route.share, self._rng.random(), incoming.key)
        began = time.perf_counter()
        for number in range(MOST_TRIES):
            upstream = await self._upstream(route, incoming, canary, tried)
            last = number == MOST_TRIES - 1 or not route.retry
            if await self._once(route, upstream, incoming, send, began, last):
                return
            tried.add(upstream.address.id)
        raise Refused(502, f"{route.name} lost the request {MOST_TRIES} times; try again", 1)

    async def _upstream(self, route: Route, incoming: Incoming, canary: bool, tried: set[str]) -> Upstream:
        """The replica to ask; waits where none is ready. The routes are looked at again after each change."""
        deadline = time.monotonic() + HOLD_SECONDS
        while True:
            current = self._state.routes.get((route.team, route.name))
            if current is None:
                raise Refused(404, f"{route.name} was stopped")
            # A canary that is not ready, or was rolled back meanwhile, costs nobody an answer.
            ready = self._state.ready(current, canary) or self._state.ready(
                current, not canary and bool(current.share)
            )
            by_id = {upstream.address.id: upstream for upstream in ready}
            draws = self._rng.random(), self._rng.random()
            targets = [upstream.target for upstream in ready]
            chosen = choose(targets, draws, now_ms=now_ms(), key=incoming.key, tried=tried)
            if chosen is not None:
                return by_id[chosen.id]
            tried.clear()
            if current.idle:
                await self._wake(current.endpoint_id)
            await self._wait(route, deadline)

    async def _wait(self, route: Route, deadline: float) -> None:
        began = time.monotonic()
        left = deadline - began
        try:
            async with asyncio.timeout(left), self._state.changed:
                await self._state.changed.wait()
        except TimeoutError:
            sentence = f"no replica of {route.name} was ready within {HOLD_SECONDS:.0f} s"
            raise Refused(503, sentence, 10) from None
        finally:
            self._state.held(route, now_ms(), (time.monotonic() - began) * 1000)

    async def _once(
        self, route: Route, upstream: Upstream, incoming: Incoming, send: Any, began: float, last: bool
    ) -> bool:
        """Whether it was answered. False: the replica was lost before its answer began, so another may try."""
        address = upstream.address
        upstream.outstanding += 1
        asked = time.perf_counter()
        started, failed = False, True
        try:
            place = address.host, address.port
            response = await self._connections.request(
                place, incoming.method, incoming.path, incoming.headers_for(address), incoming.body
            )
            try:
                if response.status in LOST and not last:
                    return False
                started, failed = True, response.status >= 500
                await self._answer(route, address.version_id, incoming, response, send)
            finally:
                self._connections.done(response)
            upstream.circuit = upstream.circuit.succeeded()
            return True
        except Lost as error:
            upstream.circuit = upstream.circuit.failed(now_ms())
            if isinstance(error, Unreachable):
                upstream.ready = False  # until it is found ready again
            if started:
                raise  # the caller has a part of the answer: its connection ends here
            if last:
                raise Refused(502, f"a replica of {route.name} was lost: {error}", 1) from error
            return False
        except Unsendable as error:
            failed = False
            raise Refused(400, str(error)) from error
        except asyncio.CancelledError:
            failed = False  # the caller left: nobody's error
            raise
        finally:
            upstream.outstanding -= 1
            if started or last:
                ended = time.perf_counter()
                latency_ms, in_flight_ms = (ended - began) * 1000, (ended - asked) * 1000
                self._state.count(route, address.version_id, now_ms(), latency_ms, in_flight_ms, failed)

    async def _answer(
        self, route: Route, version_id: str, incoming: Incoming, response: Answer, send: Any
    ) -> None:
        """Passes the answer on, and keeps what is sampled of it."""
        key, cache_key = self._request_id(incoming), incoming.cache_key(route)
        keeping = cache_key is not None and response.status == 200 and version_id == route.stable_id
        small = incoming.method == "POST" and response.status == 200 and len(incoming.body) <= LARGEST_SAMPLE
        sampling = small and self._rng.random() * 100 < route.sample_percent
        shadowing = small and self._shadowing.wants(route, incoming)
        most = max(LARGEST if keeping else -1, LARGEST_SAMPLE if sampling or shadowing else -1)
        answer = await _pass_on(response, send, most, key)
        if answer is None:
            return
        if cache_key is not None and keeping:
            headers = [pair for pair in response.headers if pair[0] not in _REPLACED]
            self._cache.put(cache_key, headers, answer, route.cache_seconds)
        if len(answer) > LARGEST_SAMPLE:
            return
        told = SampledAnswer(
            route.endpoint_id, version_id, now_ms(), incoming.body, answer, route.redact, key,
            collected=route.consent.given(incoming.consent),
        )  # fmt: skip
        if sampling:
            self._state.sample(told)
        if shadowing:
            self._shadowing.begin(route, incoming, told, sampling)

    def _request_id(self, incoming: Incoming) -> str:
        given = incoming.headers.get(REQUEST_ID, "")
        return given if _ID.fullmatch(given) else f"{self._rng.getrandbits(128):032x}"


async def _pass_on(response: Answer, send: Any, most: int, key: str) -> bytes | None:
    """Returns the body unless it has more bytes than `most`."""
    headers = [(name, value) for name, value in response.headers if name not in _REPLACED]
    headers.append((REQUEST_ID, key.encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    parts: list[bytes] = []
    size = 0
    async for part in response.parts():
        size += len(part)
        if size <= most:
            parts.append(part)
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return b"".join(parts) if size <= most else None
