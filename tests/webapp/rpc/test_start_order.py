"""From the submission to the start on a free cluster nothing waits for a clock.

A clock may be the truth, but each one that is waited for is a second that people wait. So here none runs: no beat asks
for rounds, and the gateway would look for changes again in an hour. What arrives has come by hints alone.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc.aio
import pytest
from celery import current_app
from django.core.cache import cache
from rest_framework.test import APIClient

from tests.support.replicas import another_process
from tests.webapp.conftest import credential_of
from tests.webapp.rpc.agents import PATIENCE, connected, heartbeat, in_thread, order, whole_gateway
from trainmaster_wire.agent.v1 import session_pb2
from webapp.accounts.models import Team, User
from webapp.jobs.models import Job
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.rpc import revisions

WORKER = ("-m", "celery", "--quiet", "-A", "webapp.config", "worker", "--pool", "solo", "--loglevel", "ERROR")
SPEC = {"name": "quick", "team": "vision", "command": "train.py", "num_gpus": 2, "gpu_type": "cpu"}


@pytest.fixture(autouse=True)
def no_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "LOOK_EVERY_S", 3600.0)


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


def until_the_gateway_hears_hints() -> None:
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not liveness.client().pubsub_numpat():
        assert time.monotonic() < deadline, "the gateway does not listen for hints"
        pause.wait(0.05)


async def beats(call: Any) -> None:
    """As an agent does, whatever else happens."""
    for sequence in itertools.count(1):
        await call.write(heartbeat(sequence))
        await asyncio.sleep(1.0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("threads_that_leave")
def test_a_submission_reaches_the_agent_by_hints_alone(
    free_node: Node, worker: Callable[[], Any], owner: User, api: Callable[..., APIClient]
) -> None:
    client, credential = api(owner), credential_of(free_node)

    async def talk() -> session_pb2.Wanted:
        async with whole_gateway() as address, grpc.aio.insecure_channel(address) as channel:
            await in_thread(until_the_gateway_hears_hints)
            agent = await connected(channel, free_node, credential)
            await order(agent, lambda state: not state.attempts)
            beating = asyncio.create_task(beats(agent))
            with worker():
                await in_thread(until_it_waits_for_tasks)
                answer = await in_thread(lambda: client.post("/api/v1/training-jobs", SPEC, format="json"))
                assert answer.status_code == 201
                started = await order(agent, lambda state: bool(state.attempts))
            beating.cancel()
            return started

    [attempt] = asyncio.run(talk()).attempts
    assert Job.objects.get().id == attempt.launch.job_id
    assert attempt.action == session_pb2.AttemptWanted.RUN
