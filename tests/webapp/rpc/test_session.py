"""A real session with the gateway's servicer, and a database that keeps it waiting."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc.aio
import pytest
from django.conf import settings
from django.db import connection, connections, transaction

from tests.webapp.conftest import credential_of
from tests.webapp.deployments.conftest import *  # noqa: F403  a model on its way to four nodes
from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2, session_pb2_grpc
from webapp.deployments.models import Deployment, Worker
from webapp.nodes.models import Node
from webapp.rpc import session
from webapp.rpc.revisions import Watcher
from webapp.rpc.session import SessionServicer

PATIENCE = 20


@pytest.fixture
def threads_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's threads keep their connections for a minute: the next test would wait for them."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


@contextmanager
def busy(deployment: Deployment) -> Iterator[None]:
    """Somebody else is in the middle of writing this deployment."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Deployment.objects.select_for_update().get(id=deployment.id)
            held.set()
            done.wait(PATIENCE)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(PATIENCE)
        yield
    finally:
        done.set()
        thread.join()


@asynccontextmanager
async def gateway() -> AsyncIterator[str]:
    server = grpc.aio.server()
    session_pb2_grpc.add_AgentSessionServicer_to_server(SessionServicer(Watcher()), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


def receiving(deployment: Deployment, done: int) -> session_pb2.FromAgent:
    told = session_pb2.DeploymentObserved(
        deployment_id=deployment.id, state=session_pb2.DeploymentObserved.RECEIVING, bytes_done=done
    )
    return session_pb2.FromAgent(observed=session_pb2.Observed(deployments=[told]))


async def heard(call: Any, kind: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while (message := await call.read()).WhichOneof("message") != kind:
            pass
    return getattr(message, kind)


@pytest.mark.django_db(transaction=True)
def test_heartbeats_are_answered_while_the_database_waits_and_the_newest_word_is_kept(
    deployment: Deployment, nodes: list[Node], threads_that_leave: None
) -> None:
    node = nodes[0]
    credential = credential_of(node)
    slots = [enrolment_pb2.SlotDescription(index=index) for index in range(2)]
    itself = enrolment_pb2.NodeDescription(
        hostname=node.hostname, rack=node.rack, gpu_type="cpu", slots=slots
    )
    hello = session_pb2.Hello(node=itself)

    async def talk() -> None:
        async with gateway() as address, grpc.aio.insecure_channel(address) as channel:
            stub = session_pb2_grpc.AgentSessionStub(channel)
            call = stub.Connect(metadata=(("authorization", f"Bearer {credential}"),))
            await call.write(session_pb2.FromAgent(hello=hello))
            assert (await heard(call, "welcome")).lost_after_ms == settings.LOST_AFTER_SECONDS * 1000
            with busy(deployment):
                for beat in range(1, 5):
                    await call.write(receiving(deployment, 100 * beat))
                    await call.write(session_pb2.FromAgent(heartbeat=session_pb2.Heartbeat(sequence=beat)))
                    assert (await heard(call, "heartbeat_ack")).sequence == beat
            await call.done_writing()
            async with asyncio.timeout(PATIENCE):
                while await call.read() is not grpc.aio.EOF:
                    pass

    asyncio.run(talk())
    assert Worker.objects.get(deployment=deployment, node=node).bytes_done == 400


async def test_a_session_that_is_cut_off_leaves_no_task_behind() -> None:
    listening = asyncio.create_task(asyncio.Event().wait())
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(session._next(asyncio.Queue(), [listening]))  # type: ignore[list-item]
    while len(asyncio.all_tasks()) < len(before) + 2:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    listening.cancel()
