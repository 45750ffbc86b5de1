"""What a router does for ever beside its requests: read the endpoints, look at replicas, store what it counted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from asgiref.sync import sync_to_async
from django.db import close_old_connections

from webapp.base import pulse, stops
from webapp.base.identity import new_id
from webapp.router import hints
from webapp.router.state import State, Upstream
from webapp.serving import queries, services

log = logging.getLogger(__name__)
RELOAD_SECONDS = 0.5
PROBE_SECONDS = 0.5
PROBE_TIMEOUT_SECONDS = 2.0  # for the whole answer
MOST_OF_A_PROBE = 4 << 10
STORE_SECONDS = 1.0
ALIVE_SECONDS = 5.0
TELL_SECONDS = 2.0  # between two words about a replica that stays ready


class Duties:
    def __init__(self, state: State) -> None:
        self._state, self._id = state, new_id("router")
        self._tasks: list[asyncio.Task[None]] = []
        self._client = httpx.AsyncClient(timeout=PROBE_TIMEOUT_SECONDS, trust_env=False)
        self._told: dict[tuple[str, int], float] = {}
        self._reading = asyncio.Lock()

    async def begin(self) -> None:
        """The first table is read before the first request is taken."""
        await self._reload()
        duties = ((self._reload, RELOAD_SECONDS), (self._probe, PROBE_SECONDS), (self._store, STORE_SECONDS))
        self._tasks = [asyncio.create_task(_for_ever(duty, seconds)) for duty, seconds in duties]
        self._tasks.append(asyncio.create_task(_for_ever(self._say_alive, ALIVE_SECONDS)))
        self._tasks.append(asyncio.create_task(_for_ever(self._listen, RELOAD_SECONDS)))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store()
        await _in_thread(stops.announce, stops.ROUTER)
        await self._client.aclose()

    async def wake(self, endpoint_id: str) -> None:
        await _in_thread(services.wake, endpoint_id)

    async def _reload(self) -> None:
        """One at a time, so that an older reading never replaces a newer one."""
        async with self._reading:
            await self._state.replace(await _in_thread(queries.routes))

    async def _say_alive(self) -> None:
        await _in_thread(pulse.alive, stops.ROUTER)

    async def _listen(self) -> None:
        """A rollback reaches this router when it is committed, not when the clock says so."""
        await hints.listen(self._reload)

    async def _probe(self) -> None:
        upstreams = dict(self._state.upstreams)
        before = {key: upstream.ready for key, upstream in upstreams.items()}
        await asyncio.gather(*(self._look(upstream) for upstream in upstreams.values()))
        if any(upstream.ready != before[key] for key, upstream in upstreams.items()):
            await self._state.announce()
        now = time.monotonic()
        due = [
            key
            for key, upstream in upstreams.items()
            if upstream.ready and (not before[key] or now - self._told.get(key, 0) > TELL_SECONDS)
        ]
        if due:
            await _in_thread(services.healthy, dict(due))
            self._told = {key: self._told.get(key, 0) for key in upstreams} | dict.fromkeys(due, now)

    async def _look(self, upstream: Upstream) -> None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                upstream.ready = await self._is_ready(upstream)
        except (httpx.HTTPError, TimeoutError):
            upstream.ready = False

    async def _is_ready(self, upstream: Upstream) -> bool:
        """Reads little of the answer: a replica runs what people wrote, and a connection is kept when all was read."""
        url = f"{upstream.address.url}/v2/health/ready"
        async with self._client.stream("GET", url) as answer:
            size = 0
            async for part in answer.aiter_raw():
                size += len(part)
                if size > MOST_OF_A_PROBE:
                    break
            return answer.status_code == 200

    async def _store(self) -> None:
        now = time.time_ns() // 1_000_000
        if counts := self._state.counted(now):
            await _in_thread(services.count_traffic, self._id, counts)
        if shadows := self._state.shadowed(now):
            await _in_thread(services.count_shadows, self._id, shadows)
        samples = self._state.sampled()
        if samples:
            await _in_thread(services.keep_answers, samples)


async def _for_ever(duty: Callable[[], Awaitable[None]], seconds: float) -> None:
    """A duty that fails is tried again: without the database the router goes on with what it knows."""
    while True:
        try:
            await duty()
        except Exception:
            log.exception("the router could not %s", getattr(duty, "__name__", duty))
        await asyncio.sleep(seconds)


async def _in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    def run() -> Any:
        close_old_connections()
        try:
            return call(*arguments)
        finally:
            close_old_connections()

    return await sync_to_async(run, thread_sensitive=False)()
