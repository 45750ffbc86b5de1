"""A node whose heartbeats are not acknowledged ends what runs on it before the platform starts it elsewhere."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from agent.launchers import processes
from agent.launchers.lease import read_lease
from platform_core.cluster.leases import lease_ms
from tests.agent.conftest import AgentProcess, wanted
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

TRAINS = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
SHORT_MS = 6_000
NODE_LOST = session_pb2.AttemptObserved.NODE_LOST


async def running(
    gateway: Gateway, agent: AgentProcess, attempt_id: str, script: str, **launch: object
) -> None:
    gateway.lost_after_ms = SHORT_MS
    await agent.start()
    await gateway.want(wanted(attempt_id, "sh", "-c", script, **launch))
    await gateway.until(lambda: "ready" in gateway.log(attempt_id, 0))


async def gone(attempt_id: str) -> None:
    async with asyncio.timeout(30):
        while processes.marked(attempt_id):
            await asyncio.sleep(0.05)


async def test_a_killed_agent_that_does_not_come_back(gateway: Gateway, agent: AgentProcess) -> None:
    await running(gateway, agent, "att-test-lease-1", TRAINS)
    await agent.kill()
    await gone("att-test-lease-1")
    await agent.start()
    ended = await gateway.until_drained("att-test-lease-1")
    assert gateway.log("att-test-lease-1", 0).endswith("saved\n")
    assert ended.end == NODE_LOST
    assert ended.reason.startswith("No heartbeat of its node was acknowledged for ")


async def test_a_frozen_agent_that_wakes_up_later(gateway: Gateway, agent: AgentProcess) -> None:
    await running(gateway, agent, "att-test-lease-2", STUBBORN)
    assert agent.process is not None
    frozen = psutil.Process(agent.process.pid)
    frozen.suspend()
    try:
        await gone("att-test-lease-2")
    finally:
        frozen.resume()
    ended = await gateway.until_drained("att-test-lease-2")
    assert (ended.exit_code, ended.end) == (137, NODE_LOST)
    assert "acknowledged" in ended.reason


@pytest.mark.parametrize("lost", ["everything", "acknowledgements"])
async def test_an_agent_that_is_cut_off_ends_its_ranks(
    gateway: Gateway, agent: AgentProcess, lost: str
) -> None:
    """The agent lives, and its heartbeats may even arrive: what counts is what it has heard."""
    await running(gateway, agent, "att-test-lease-3", STUBBORN)
    if lost == "everything":
        port = int(gateway.address.rpartition(":")[2])
        await gateway.stop()
        await gone("att-test-lease-3")
        await gateway.start(port)
    else:
        gateway.acknowledges_heartbeats = False
        await gone("att-test-lease-3")
        gateway.acknowledges_heartbeats = True
    ended = await gateway.until_drained("att-test-lease-3", 60)
    assert (ended.exit_code, ended.end) == (137, NODE_LOST)


async def test_a_short_cut_ends_nothing(gateway: Gateway, agent: AgentProcess) -> None:
    await running(gateway, agent, "att-test-lease-4", TRAINS)
    before = read_lease(str(agent.data / "lease"))
    await gateway.restart()
    assert before is not None

    def extended() -> bool | None:
        lease = read_lease(str(agent.data / "lease"))
        return True if lease and lease.sent_ms > before.sent_ms + lease_ms(SHORT_MS) else None

    async with asyncio.timeout(60):
        while not extended():  # for longer than the lease that it had before the cut
            await asyncio.sleep(0.05)
    assert processes.marked("att-test-lease-4")
    assert not (agent.folder("att-test-lease-4") / "stop").exists()


@pytest.mark.parametrize("choice", ["CONTINUE", "OVERLAP"])
async def test_a_job_that_prefers_to_go_on_does(gateway: Gateway, agent: AgentProcess, choice: str) -> None:
    number = session_pb2.Launch.WhenCutOff.Value(choice)
    await running(gateway, agent, "att-test-lease-5", TRAINS, when_cut_off=number)
    await gateway.want(
        wanted("att-test-lease-5", "true", when_cut_off=number),
        wanted("att-test-lease-6", "sh", "-c", STUBBORN, slots=[1]),
    )
    await gateway.until(lambda: "ready" in gateway.log("att-test-lease-6", 0))
    await agent.kill()
    await gone("att-test-lease-6")  # the lease has run out
    assert processes.marked("att-test-lease-5")
    await agent.start()
    await gateway.until_phase("att-test-lease-6", session_pb2.AttemptObserved.EXITED)
    assert processes.marked("att-test-lease-5")
