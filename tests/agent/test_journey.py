"""A real agent process, a real gRPC server, real training processes."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

from agent.launchers import processes
from tests.agent.conftest import AgentProcess, gone, stop, there, wanted
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

RUNNING, EXITED = session_pb2.AttemptObserved.RUNNING, session_pb2.AttemptObserved.EXITED


async def test_a_node_joins_runs_a_job_and_cleans_up(gateway: Gateway, agent: AgentProcess) -> None:
    await agent.start("--rack", "r1", "--label", "disk=nvme")
    await gateway.until(lambda: gateway.heartbeats)
    description = gateway.hellos[0].node
    assert (description.rack, len(description.slots), description.gpu_type) == ("r1", 2, "cpu")
    assert dict(description.labels) == {"disk": "nvme"}
    identity = agent.data / "node.json"
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600

    await gateway.want(wanted("att-test-1", "sh", "-c", "echo hello; echo last line"))
    ended = await gateway.until_drained("att-test-1")
    assert (ended.phase, ended.exit_code, ended.reason) == (EXITED, 0, "")
    told = gateway.attempts["att-test-1"]
    assert [each.uplink_drained for each in told] == [False] * (len(told) - 1) + [True]
    assert gateway.log("att-test-1", 0) == "hello\nlast line\n"

    await gateway.want()
    await gateway.until(lambda: not gateway.observed.attempts)
    await gone(agent.folder("att-test-1"))


async def test_a_killed_agent_comes_back_and_adopts_what_runs(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo before; while [ ! -e {go_on} ]; do sleep 0.1; done; echo after; exit 3"
    job = wanted("att-test-2", "sh", "-c", script)
    await agent.start()
    await gateway.want(job)
    await gateway.until(lambda: "before" in gateway.log("att-test-2", 0))
    await agent.kill()

    await agent.start()
    await gateway.until(lambda: len(gateway.hellos) == 2)
    (adopted,) = gateway.hellos[1].observed.attempts
    assert (adopted.attempt_id, adopted.phase) == ("att-test-2", RUNNING)
    assert len(gateway.joins) == 1

    go_on.touch()
    ended = await gateway.until_drained("att-test-2")
    assert (ended.exit_code, ended.infrastructure) == (3, False)
    assert gateway.log("att-test-2", 0) == "before\nafter\n"


async def test_an_attempt_that_ended_while_no_agent_lived_is_told_afterwards(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo before; while [ ! -e {go_on} ]; do sleep 0.1; done; echo after"
    await agent.start()
    await gateway.want(wanted("att-test-3", "sh", "-c", script))
    await gateway.until_phase("att-test-3", RUNNING)
    await agent.kill()
    go_on.touch()
    await there(agent.folder("att-test-3") / "exit.json")

    await agent.start()
    ended = await gateway.until_drained("att-test-3")
    assert ended.exit_code == 0
    assert gateway.log("att-test-3", 0) == "before\nafter\n"


async def test_stop_reaches_what_does_not_want_to_hear_it(gateway: Gateway, agent: AgentProcess) -> None:
    daemon = "trap '' TERM HUP; while :; do sleep 0.2; done"
    script = f'trap "" TERM; setsid sh -c "{daemon}" & echo parent; wait; sleep 60'
    await agent.start()
    await gateway.want(wanted("att-test-4", "sh", "-c", script))
    await gateway.until(lambda: "parent" in gateway.log("att-test-4", 0))
    await gateway.want(stop("att-test-4", grace_seconds=1))
    ended = await gateway.until_drained("att-test-4")
    assert ended.exit_code == 137
    assert "within its grace" in ended.reason
    assert processes.marked("att-test-4") == []


async def test_a_revoked_credential_ends_the_agent_with_a_sentence(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    await gateway.until(lambda: gateway.heartbeats)
    await agent.kill(signal.SIGTERM)
    gateway.revoked.add("credential-of-node-1")
    await agent.start()
    assert await agent.ended() == 3
    assert "The credential of this node was revoked" in agent.log()
    assert "--rejoin" in agent.log()


async def test_a_wrong_bootstrap_token_ends_the_agent_with_a_sentence(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start(token="wrong")
    assert await agent.ended() == 3
    assert "The bootstrap token is not valid" in agent.log()
