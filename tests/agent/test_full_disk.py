"""The disk of an agent is full for a while: it lives, says so, and loses nothing that a script could write."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import AgentProcess, wanted
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

SCRIPT = """
import os, sys, time
kept, number = open(sys.argv[1], "a", buffering=1), 0
while not os.path.exists(sys.argv[2]):
    number += 1
    line = f"line {number}\\n".encode()
    try:
        if os.write(1, line) == len(line):
            kept.write(f"{number}\\n")
    except OSError:
        pass
    time.sleep(0.01)
"""


@pytest.fixture
def small_disk(agent: AgentProcess) -> Iterator[Path]:
    """The folder of the agent on a disk of 24 MiB."""
    agent.data.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "test", str(agent.data)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield agent.data
    finally:
        subprocess.run(["umount", "--lazy", str(agent.data)], check=False)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return filler


async def test_an_agent_whose_disk_is_full_lives_and_loses_no_line(
    gateway: Gateway, agent: AgentProcess, small_disk: Path, tmp_path: Path
) -> None:
    kept, enough = tmp_path / "kept", tmp_path / "enough"
    await agent.start()
    await gateway.want(wanted("att-test-full", "python3", "-c", SCRIPT, str(kept), str(enough)))
    await gateway.until(lambda: "line 5" in gateway.log("att-test-full", 0))
    filler = fill(small_disk)
    beats = len(gateway.heartbeats)
    full = await gateway.until(
        lambda: next(
            (b for b in gateway.heartbeats[beats + 2 :] if b.telemetry.disk_free_bytes < 1 << 20), None
        )
    )
    assert full.telemetry.disk_free_bytes > 0, "it says a number, not that it does not know"
    assert agent.process is not None
    assert agent.process.returncode is None
    filler.unlink()
    before = len(kept.read_text().split())
    await gateway.until(lambda: len(kept.read_text().split()) > before + 50)
    enough.touch()
    ended = await gateway.until_drained("att-test-full", 60)
    assert ended.end == session_pb2.AttemptObserved.SUCCEEDED, ended.reason
    log = set(gateway.log("att-test-full", 0).split("\n"))
    assert [number for number in kept.read_text().split() if f"line {number}" not in log] == []
