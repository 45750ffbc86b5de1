"""A real session with the gateway's servicer, and a database that keeps it waiting."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc.aio
import pytest
from django.conf import settings
from django.db import connection, transaction

from tests.webapp.conftest import credential_of
from tests.webapp.deployments.conftest import *  # noqa: F403  a model on its way to four nodes
from tests.webapp.rpc.agents import PATIENCE, called, end_of, heartbeat, hello, message, whole_gateway
from trainmaster_wire.agent.v1 import session_pb2
from webapp.deployments.models import Deployment, Worker
from webapp.nodes.models import Node
from webapp.rpc import session


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


def receiving(deployment: Deployment, done: int) -> session_pb2.FromAgent:
    part = session_pb2.DeploymentObserved(
        deployment_id=deployment.id, state=session_pb2.DeploymentObserved.RECEIVING, bytes_done=done
    )
    return session_pb2.FromAgent(observed=session_pb2.Observed(deployments=[part]))


@pytest.mark.django_db(transaction=True)
def test_heartbeats_are_answered_while_the_database_waits_and_the_newest_word_is_kept(
    deployment: Deployment, nodes: list[Node], threads_that_leave: None
) -> None:
    node = nodes[0]
    credential = credential_of(node)

    async def talk() -> None:
        async with whole_gateway() as address, grpc.aio.insecure_channel(address) as channel:
            call = called(channel, credential)
            await call.write(hello(node))
            assert (await message(call, "welcome")).lost_after_ms == settings.LOST_AFTER_SECONDS * 1000
            with busy(deployment):
                for beat in range(1, 5):
                    await call.write(receiving(deployment, 100 * beat))
                    await call.write(heartbeat(beat))
                    assert (await message(call, "heartbeat_ack")).sequence == beat
            await call.done_writing()
            assert await end_of(call) is grpc.StatusCode.OK

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
