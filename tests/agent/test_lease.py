"""A node whose agent is dead or frozen ends what runs on it before the platform starts it elsewhere."""

from __future__ import annotations

import asyncio
import signal

import psutil

from agent.launchers import processes
from tests.agent.conftest import AgentProcess, wanted
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

TRAINS = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
SHORT_MS = 6_000
NODE_LOST = session_pb2.AttemptObserved.NODE_LOST


async def running(gateway: Gateway, agent: AgentProcess, attempt_id: str, script: str) -> None:
    gateway.lost_after_ms = SHORT_MS
    await agent.start()
    await gateway.want(wanted(attempt_id, "sh", "-c", script))
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
    assert ended.reason.startswith("The agent of its node was silent for ")


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
    assert "silent" in ended.reason


async def test_an_agent_that_is_cut_off_goes_on_training(gateway: Gateway, agent: AgentProcess) -> None:
    await running(gateway, agent, "att-test-lease-3", TRAINS)
    await gateway.stop()
    lease = agent.data / "lease"
    renewals = {lease.read_bytes()}
    async with asyncio.timeout(30):
        while len(renewals) < 2 + SHORT_MS // 1000:  # one a second: longer than the node would be lost after
            renewals.add(lease.read_bytes())
            await asyncio.sleep(0.1)
    assert processes.marked("att-test-lease-3")
    assert not (agent.folder("att-test-lease-3") / "stop").exists()
    await agent.kill(signal.SIGKILL)
    await gone("att-test-lease-3")
