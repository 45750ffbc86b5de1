"""Real processes, and SIGKILL in the middle."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from platform_core.distribution.content.manifest import Manifest, to_json
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.rig import CHUNK, MODEL, VERSION, GatedStore, content


class Process:
    def __init__(self, name: str, data: Path) -> None:
        self.name, self.data = name, data
        self.seen: list[dict[str, Any]] = []

    async def start(self) -> None:
        command = (sys.executable, "-m", "tests.agent.transfer.process", str(self.data))
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        self.port = (await self._line())["port"]

    async def order(self, manifest: Manifest, store: str, *predecessors: Process) -> None:
        order = {
            "deployment_id": "dep-1",
            "model": MODEL,
            "version": VERSION,
            "artifact": {"manifest_id": manifest.id, "source_url": store},
            "manifest": to_json(manifest),
            "peers": [(peer.name, f"127.0.0.1:{peer.port}") for peer in predecessors],
            "transfer_token": "token",
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        await self.process.stdin.drain()

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                self.seen.append(await self._line())
                if condition(self.seen[-1]):
                    return self.seen[-1]

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, f"{self.name} is dead"
        return dict(json.loads(line))


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[list[Process]]:
    four = [Process(f"node-{n}", tmp_path / f"node-{n}") for n in range(4)]
    await asyncio.gather(*(process.start() for process in four))
    yield four
    for process in four:
        await process.kill()


async def test_a_killed_agent_is_bypassed_and_back_again_completes(
    processes: list[Process], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(8 * CHUNK)
    for position, process in enumerate(processes):
        await process.order(manifest, store.url, *reversed(processes[:position]))
    await processes[3].until(lambda seen: seen["bytes_done"] >= 7 * CHUNK)
    await processes[1].kill()
    store.open()
    for survivor in (processes[0], processes[2], processes[3]):
        await survivor.until(lambda seen: seen["state"] == "complete")
    assert processes[2].seen[-1]["source"] == "node-0"
    assert store.bytes_sent == manifest.total_bytes

    await processes[1].start()
    await processes[1].order(manifest, store.url, processes[0])
    first = await processes[1].until(lambda seen: seen["bytes_done"] > 0)
    assert first["bytes_done"] >= 6 * CHUNK  # it counts what it had before it fetches the rest
    await processes[1].until(lambda seen: seen["state"] == "complete")
    assert store.bytes_sent == manifest.total_bytes
    assert [content(process.data / "models" / MODEL / VERSION) for process in processes] == [FILES] * 4
