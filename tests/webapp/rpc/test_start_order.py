"""From the submission to the start on a free cluster nothing waits for a clock.

A clock may be the truth, but each one that is waited for is a second that people wait. So here none runs: no beat asks
for rounds, and the gateway would look for changes again in an hour. What arrives has come by hints alone.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc.aio
import pytest
from celery import current_app
from django.core.cache import cache
from django.db import connection, connections
from rest_framework.test import APIClient

from tests.support.replicas import another_process
from tests.webapp.conftest import credential_of
from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2, session_pb2_grpc
from webapp.accounts.models import Team, User
from webapp.jobs.models import Job
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.rpc import revisions
from webapp.rpc.revisions import Watcher
from webapp.rpc.session import SessionServicer

PATIENCE = 40
WORKER = ("-m", "celery", "--quiet", "-A", "webapp.config", "worker", "--pool", "solo", "--loglevel", "ERROR")
SPEC = {"name": "quick", "team": "vision", "command": "train.py", "num_gpus": 2, "gpu_type": "cpu"}


@pytest.fixture(autouse=True)
def no_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "LOOK_EVERY_S", 3600.0)
    # The gateway's threads keep their connections for a minute: the next test would wait for them.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


@pytest.fixture
def free_node(node: Callable[..., Node], vision: Team, quota: Callable[..., Quota]) -> Node:
    quota(vision)
    return node("node-1")


@pytest.fixture
def worker() -> Callable[[], Any]:
    """Of the tasks, without a beat. What was asked for before it came is forgotten: only the submission asks."""

    def start() -> Any:
        current_app.control.purge()
        cache.delete("scheduling:asked")
        return another_process(*WORKER)

    return start


def until_it_waits_for_tasks() -> None:
    """A hint is for the next seconds: one that finds no worker so long is lost, which is what the beat is for."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while all(client["cmd"] != "brpop" for client in liveness.client().client_list()):
        assert time.monotonic() < deadline, "the worker does not ask for tasks"
        pause.wait(0.05)


@asynccontextmanager
async def gateway() -> AsyncIterator[str]:
    """It hears hints already."""
    watcher, server = Watcher(), grpc.aio.server()
    session_pb2_grpc.add_AgentSessionServicer_to_server(SessionServicer(watcher), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    looking = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(lambda: liveness.client().pubsub_numpat()):
                await asyncio.sleep(0)
        yield f"127.0.0.1:{port}"
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        await server.stop(grace=None)


@asynccontextmanager
async def agent(address: str, node: Node) -> AsyncIterator[Any]:
    """It has said Hello, and has been told that nothing is wanted of it."""
    credential = await _in_thread(lambda: credential_of(node))
    slots = [enrolment_pb2.SlotDescription(index=index) for index in range(2)]
    itself = enrolment_pb2.NodeDescription(
        hostname=node.hostname, rack=node.rack, gpu_type="cpu", slots=slots, cpus=8, memory_bytes=64 << 30,
        address="127.0.0.1", rendezvous_port_low=29400, rendezvous_port_high=29499,
    )  # fmt: skip
    async with grpc.aio.insecure_channel(address) as channel:
        stub = session_pb2_grpc.AgentSessionStub(channel)
        call = stub.Connect(metadata=(("authorization", f"Bearer {credential}"),))
        await call.write(session_pb2.FromAgent(hello=session_pb2.Hello(node=itself)))
        for kind in ("welcome", "wanted"):  # the latter is sent anew once it has said Hello
            while (await _read(call)).WhichOneof("message") != kind:
                pass
        yield call


async def _beats(call: Any) -> None:
    """As an agent does, whatever else happens."""
    for sequence in itertools.count(1):
        await call.write(session_pb2.FromAgent(heartbeat=session_pb2.Heartbeat(sequence=sequence)))
        await asyncio.sleep(1.0)


async def _read(call: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await call.read()


async def _in_thread(do: Callable[[], Any]) -> Any:
    def done() -> Any:
        try:
            return do()
        finally:
            connection.close()

    return await asyncio.to_thread(done)


@pytest.mark.django_db(transaction=True)
def test_a_submission_reaches_the_agent_by_hints_alone(
    free_node: Node, worker: Callable[[], Any], owner: User, api: Callable[..., APIClient]
) -> None:
    client = api(owner)

    async def told() -> list[tuple[str, int]]:
        async with gateway() as address, agent(address, free_node) as call:
            beating = asyncio.create_task(_beats(call))
            with worker():
                await asyncio.to_thread(until_it_waits_for_tasks)
                answer = await _in_thread(lambda: client.post("/api/v1/training-jobs", SPEC, format="json"))
                assert answer.status_code == 201
                while True:
                    message = await _read(call)
                    if message.wanted.attempts:
                        beating.cancel()
                        return [(each.launch.job_id, each.action) for each in message.wanted.attempts]

    [(job_id, action)] = asyncio.run(told())
    assert Job.objects.get().id == job_id
    assert action == session_pb2.AttemptWanted.RUN
