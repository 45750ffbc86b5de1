"""A gateway, agents as real processes, and what they are told to run."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from agent.launchers import processes
from tests.support.gateway import BOOTSTRAP_TOKEN, Gateway, running_gateway
from tests.support.outbound import this_machine_may_be_asked
from trainmaster_wire.agent.v1 import session_pb2

__all__ = ["this_machine_may_be_asked"]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        yield running


class AgentProcess:
    """`trainmaster agent` in a data folder; may be killed and started again."""

    def __init__(self, gateway: Gateway, data: Path, security: tuple[str, ...] = ("--insecure",)) -> None:
        self.gateway, self.data, self.security = gateway, data, security
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *flags: str, token: str = BOOTSTRAP_TOKEN) -> None:
        command = [sys.executable, "-m", "agent.main", "--server", self.gateway.address, *self.security]
        command += ["--data", str(self.data), "--slots", "2", "--address", "127.0.0.1", *flags]
        environment = {**os.environ, "TRAINMASTER_AGENT_TOKEN": token}
        with open(self.log_path, "ab") as log:
            self.process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=log)

    @property
    def log_path(self) -> Path:
        return self.data.with_suffix(".log")

    def log(self) -> str:
        return self.log_path.read_text()

    def folder(self, attempt_id: str) -> Path:
        return self.data / "attempts" / attempt_id

    def records(self, attempt_id: str) -> Path:
        return self.data / "records" / attempt_id

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        await self.ended()

    async def until_said(self, text: str, seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while text not in self.log():
                await asyncio.sleep(0.02)

    async def ended(self) -> int:
        assert self.process is not None
        try:
            async with asyncio.timeout(40):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"the agent did not end; it said:\n{self.log()[-3000:]}") from None


@pytest.fixture
async def agent(gateway: Gateway, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    one = AgentProcess(gateway, tmp_path / "agent")
    yield one
    if one.process is not None:
        await one.kill()


@pytest.fixture(autouse=True)
def nothing_is_left_alive(tmp_path: Path) -> Iterator[None]:
    """Whatever a test starts for an attempt named `att-…` is gone afterwards, also when the test fails. What runs in
    another folder belongs to other tests that run on this machine at the same time."""
    yield
    here = str(tmp_path)
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            ours = environment.get("TRAINMASTER_DIR", here).startswith(here)
            if ours and environment.get(processes.MARK, "").startswith("att-test-"):
                process.kill()
        except psutil.Error:
            continue


async def there(path: Path, seconds: float = 15) -> None:
    """Files of other processes send no news, so this looks again and again."""
    async with asyncio.timeout(seconds):
        while not path.exists():
            await asyncio.sleep(0.02)


async def gone(path: Path, seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while path.exists():
            await asyncio.sleep(0.02)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wanted(
    attempt_id: str, *command: str, strategy: str = "custom", grace_seconds: int = 5, **launch: object
) -> session_pb2.AttemptWanted:
    """RUN of this command on the whole node, unless `launch` says otherwise."""
    fields: dict[str, object] = {
        "job_id": "job-test",
        "job_name": "test",
        "attempt": 1,
        "command": list(command),
        "strategy": strategy,
        "nodes": 1,
        "slots": [0],
        "master_address": "127.0.0.1",
        "master_port": free_port(),
        "cpus_per_gpu": 1,
        "checkpoint": session_pb2.CheckpointPolicy(keep_last=2),
        **launch,
    }
    return session_pb2.AttemptWanted(
        attempt_id=attempt_id,
        action=session_pb2.AttemptWanted.RUN,
        grace_seconds=grace_seconds,
        launch=session_pb2.Launch(**fields),  # type: ignore[arg-type]
    )


def stop(attempt_id: str, grace_seconds: int = 5) -> session_pb2.AttemptWanted:
    return session_pb2.AttemptWanted(
        attempt_id=attempt_id, action=session_pb2.AttemptWanted.STOP, grace_seconds=grace_seconds
    )
