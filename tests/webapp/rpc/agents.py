"""What an agent says to the real gateway, said by hand."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
from django.db import connection

from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2, session_pb2_grpc
from webapp.nodes.models import Node
from webapp.rpc.database import THREADS, in_database
from webapp.rpc.gateway import make_server
from webapp.rpc.revisions import Watcher

PATIENCE = 40


def authorised(credential: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {credential}"),)


def itself(node: Node, slots: int = 2, **changes: Any) -> enrolment_pb2.NodeDescription:
    """The description that the node's agent sends."""
    offered = [enrolment_pb2.SlotDescription(index=index, name=f"slot {index}") for index in range(slots)]
    fields = {
        "hostname": node.hostname, "rack": node.rack, "gpu_type": "cpu", "slots": offered, "cpus": 8,
        "memory_bytes": 64 << 30, "disk_bytes": 1 << 40, "agent_version": "0.1.0", "address": "127.0.0.1",
        "transfer_port": 7700, "rendezvous_port_low": 29400, "rendezvous_port_high": 29499,
    }  # fmt: skip
    return enrolment_pb2.NodeDescription(**{**fields, **changes})


def hello(node: Node, slots: int = 2, runs: Sequence[str] = ()) -> session_pb2.FromAgent:
    """`runs` are the attempts that it has."""
    running = session_pb2.AttemptObserved.RUNNING
    attempts = [session_pb2.AttemptObserved(attempt_id=each, phase=running) for each in runs]
    observed = session_pb2.Observed(attempts=attempts)
    return session_pb2.FromAgent(hello=session_pb2.Hello(node=itself(node, slots), observed=observed))


def heartbeat(sequence: int) -> session_pb2.FromAgent:
    return session_pb2.FromAgent(heartbeat=session_pb2.Heartbeat(sequence=sequence))


def called(channel: grpc.aio.Channel, credential: str) -> Any:
    return session_pb2_grpc.AgentSessionStub(channel).Connect(metadata=authorised(credential))


async def connected(
    channel: grpc.aio.Channel, node: Node, credential: str, slots: int = 2, runs: Sequence[str] = ()
) -> Any:
    """A session that has said Hello and has been welcomed."""
    call = called(channel, credential)
    await call.write(hello(node, slots, runs))
    await message(call, "welcome")
    return call


async def message(call: Any, kind: str) -> Any:
    """The next message of this kind."""
    async with asyncio.timeout(PATIENCE):
        while (received := await call.read()).WhichOneof("message") != kind:
            pass
    return getattr(received, kind)


async def order(call: Any, wanted: Callable[[session_pb2.Wanted], bool]) -> session_pb2.Wanted:
    """The first wanted state of which that is true."""
    while not wanted(state := await message(call, "wanted")):
        pass
    return state


@asynccontextmanager
async def whole_gateway() -> AsyncIterator[str]:
    """The gateway as production has it, with everything that agents call; its address."""
    watcher = Watcher()
    server = make_server(watcher)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    looking = asyncio.create_task(watcher.run())
    try:
        yield f"127.0.0.1:{port}"
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        await server.stop(grace=None)
        await _idle_threads()


async def _idle_threads() -> None:
    """A call that was cut off still writes: the rows would be there in the next test."""
    all_of_them = threading.Barrier(THREADS, timeout=PATIENCE)
    await asyncio.gather(*(in_database(all_of_them.wait) for _ in range(THREADS)))


async def end_of(call: Any) -> grpc.StatusCode:
    """How the gateway ended this call."""
    async with asyncio.timeout(PATIENCE):
        try:
            while await call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
        return grpc.StatusCode(await call.code())


async def in_thread(do: Callable[[], Any]) -> Any:
    """What the rest of the platform does meanwhile."""

    def done() -> Any:
        try:
            return do()
        finally:
            connection.close()

    return await asyncio.to_thread(done)
