"""A request that waits for a replica counts while it waits, so that an idle endpoint wakes and stays awake."""

import asyncio
from dataclasses import replace
from typing import Any

from platform_core.units import HOUR_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import endpoint_mapping
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.registry.models import ModelVersion
from webapp.router.forwarding import Forwarding
from webapp.router.incoming import Incoming
from webapp.router.state import State
from webapp.serving import coordination, queries, services
from webapp.serving.models import Endpoint
from webapp.serving.values import ReplicaAddress, Route, TrafficCount


async def test_it_is_counted_before_it_is_answered() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    route = Route("ep-1", "vision", "mlp", "mv-1", 0, True, 0, True, ())
    state, woken = State(), asyncio.Event()
    await state.replace([route])

    async def wake(endpoint_id: str) -> None:
        woken.set()

    async def stays() -> Any:
        await asyncio.Event().wait()

    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    forwarding = Forwarding(state, wake)
    asked = asyncio.create_task(
        forwarding.forward(route, Incoming("GET", "/v2/health/ready", {}, b""), stays, send)
    )
    await woken.wait()
    while not (counts := state.counted(now_ms())):
        await asyncio.sleep(0)
        await state.announce()  # as each reading of the routes does
    assert (counts[0].version_id, counts[0].requests) == ("mv-1", 0)
    port = server.sockets[0].getsockname()[1]
    address = ReplicaAddress("r-1", 1, "mv-1", False, "job-1", 1, "127.0.0.1", port)
    await state.replace([replace(route, replicas=(address,))])
    state.upstreams["r-1", 1].ready = True
    await state.announce()
    await asked
    forwarding.close()
    server.close()
    assert messages[0]["status"] == 200
    total = state.counted(now_ms())
    assert sum(one.requests for one in total) == 1


def test_an_endpoint_that_was_idle_for_long_keeps_the_replica_that_a_request_asked_for(
    cast: Cast, versions: list[ModelVersion]
) -> None:
    row = services.create(
        actor_of(cast.owner), endpoint_mapping(version=1, min_replicas=0, max_replicas=1, idle_minutes=1)
    )
    Endpoint.objects.filter(id=row.id).update(created_ms=now_ms() - HOUR_MS)
    coordination.advance(row.id)
    row.refresh_from_db()
    assert (row.wanted, row.state) == (0, "idle")
    services.wake(row.id)
    coordination.advance(row.id)
    row.refresh_from_db()
    assert row.wanted == 0, "nobody counts as asking yet; the router wakes it again"
    services.count_traffic(
        "router", [TrafficCount(row.id, "mv-1", now_ms() // 10_000 * 10_000, 0, 0, 400, (0,) * 40)]
    )
    services.wake(row.id)
    for _ in range(3):
        coordination.advance(row.id)
        row.refresh_from_db()
        assert row.wanted == 1, row.scaling_reason
    assert len(queries.replicas(row.id)) == 1
