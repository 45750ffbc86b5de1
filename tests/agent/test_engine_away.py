"""A container engine that is not there, or not for a while."""

import sys
from pathlib import Path

import pytest

from tests.agent.conftest import AgentProcess, gone, stop, there, wanted
from tests.agent.launchers.conftest import STANDIN
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

EXITED = session_pb2.AttemptObserved.EXITED


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists the agent's engine does not answer."""
    engine, switch = tmp_path / "engine", tmp_path / "away"
    engine.write_text(
        "#!/bin/sh\n"
        f'if [ -e {switch} ]; then echo "Cannot connect to the daemon. Is it running?" >&2; exit 1; fi\n'
        f'exec {sys.executable} {STANDIN} {tmp_path / "containers"} "$@"\n'
    )
    engine.chmod(0o755)
    monkeypatch.setenv("TRAINMASTER_AGENT_ENGINE", str(engine))
    return switch


async def test_an_engine_that_is_away_keeps_no_agent_from_starting_and_is_asked_again(
    gateway: Gateway, agent: AgentProcess, away: Path, tmp_path: Path
) -> None:
    job = wanted("att-test-away-1", "sh", "-c", "echo here; sleep 100", container_image="image")
    await agent.start()
    await gateway.want(job)
    await gateway.until(lambda: "here" in gateway.log("att-test-away-1", 0))
    await there(agent.records("att-test-away-1") / "process.json")
    await agent.kill()

    away.touch()
    await agent.start()
    await gateway.until(lambda: len(gateway.hellos) == 2)
    (adopted,) = gateway.hellos[1].observed.attempts
    assert adopted.attempt_id == "att-test-away-1"
    assert adopted.phase != EXITED
    await gateway.want(stop("att-test-away-1"))
    await agent.until_said("could not be asked to stop")

    away.unlink()
    ended = await gateway.until_drained("att-test-away-1")
    assert ended.phase == EXITED
    assert ended.reason.startswith("It was asked to stop")


async def test_what_an_absent_engine_never_started_is_told_and_forgotten(
    gateway: Gateway, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent = str(tmp_path / "no-engine")
    monkeypatch.setenv("TRAINMASTER_AGENT_ENGINE", absent)
    await agent.start()
    await gateway.want(wanted("att-test-away-2", "true", container_image="image"))
    ended = await gateway.until_drained("att-test-away-2")
    assert (ended.phase, ended.end) == (EXITED, session_pb2.AttemptObserved.LAUNCHER)
    assert ended.reason == (
        f"This node has no {absent}, which a job with a container image needs: install it here, or submit the job"
        " without container_image."
    )
    await gateway.want()
    await gone(agent.folder("att-test-away-2"))
