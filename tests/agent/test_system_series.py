"""What an attempt and its host use, sampled by the agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.probes.gpus import Nvml
from agent.probes.slots import Slots, find_slots
from agent.probes.system import Sampled, SystemSampler
from agent.work_folder import WorkFolder, WorkFolders
from tests.agent.conftest import AgentProcess, wanted
from tests.agent.test_probes import GIB, Driver
from tests.support.gateway import Gateway

CAP = 64 << 20
SYSTEM_RANK = 2_000_000


class PoweredDriver(Driver):
    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 312_500


@pytest.fixture
def folder(tmp_path: Path) -> WorkFolder:
    folder = WorkFolders(tmp_path).of("att-test-system")
    folder.create()
    return folder


@pytest.fixture
def rank() -> Iterator[Callable[[int], int]]:
    """Starts a process that says which rank it is."""
    started: list[subprocess.Popen[bytes]] = []

    def start(number: int) -> int:
        environment = {**os.environ, "RANK": str(number)}
        script = "import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes)  # type: ignore[call-overload]
        started.append(process)
        process.stdout.read(1)
        return int(process.pid)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def sampled(folder: WorkFolder, pid: int, slots: tuple[int, ...] = (0,), nodes: int = 1) -> Sampled:
    return Sampled(folder, slots, pid, node_rank=0, nodes=nodes)


def values(folder: WorkFolder) -> dict[str, float]:
    (line,) = folder.system_spool.read_text().splitlines()
    event = json.loads(line)
    assert event["kind"] == "system"
    assert event["step"] == event["at_ms"] // 1000
    return dict(event["values"])


def test_host_and_process_are_sampled_on_a_machine_without_gpus(
    folder: WorkFolder, tmp_path: Path, rank: Callable[[int], int]
) -> None:
    sampler = SystemSampler(find_slots(None, 2, ""), None, tmp_path, CAP)
    sampler.sample([sampled(folder, rank(0))])
    reading = values(folder)
    assert reading["system/rank0/rss_bytes"] > 1 << 20
    assert reading["system/slot0/memory_bytes"] == reading["system/rank0/rss_bytes"]
    assert 0 <= reading["system/slot0/utilisation"] <= 1
    assert reading["system/host/memory_bytes"] > 1 << 20
    assert {
        "system/host/cpu_utilisation", "system/host/disk_free_bytes", "system/host/disk_write_bytes_per_second",
        "system/host/network_sent_bytes_per_second",
    } <= reading.keys()  # fmt: skip


def test_a_process_counts_from_its_first_sample(folder: WorkFolder, tmp_path: Path) -> None:
    """Its curve does not begin at 0, nor fall to 0 where an attempt or an agent starts again."""
    script = "import sys\nfor each in range(3_000_000): pass\nprint(1, flush=True); sys.stdin.read()"
    environment = {**os.environ, "RANK": "0"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    busy = subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes)  # type: ignore[call-overload]
    busy.stdout.read(1)
    try:
        sampler = SystemSampler(find_slots(None, 2, ""), None, tmp_path, CAP)
        sampler.sample([sampled(folder, busy.pid)])
    finally:
        busy.communicate()
    reading = values(folder)
    assert 0 < reading["system/rank0/cpu_cores"] <= 1.1
    assert reading["system/slot0/utilisation"] > 0


def test_the_use_of_the_host_does_not_depend_on_the_thread_that_samples(
    folder: WorkFolder, tmp_path: Path, rank: Callable[[int], int]
) -> None:
    sampler, attempt = SystemSampler(find_slots(None, 2, ""), None, tmp_path, CAP), sampled(folder, rank(0))
    for _ in range(3):
        for _ in range(2_000_000):
            pass
        thread = threading.Thread(target=sampler.sample, args=([attempt],))
        thread.start()
        thread.join()
    lines = [json.loads(line)["values"] for line in folder.system_spool.read_text().splitlines()]
    assert all(0 < line["system/host/cpu_utilisation"] <= 1 for line in lines)


def test_gpus_are_numbered_as_the_script_sees_them(
    folder: WorkFolder, tmp_path: Path, rank: Callable[[int], int]
) -> None:
    nvml = Nvml(PoweredDriver())
    sampler = SystemSampler(find_slots(nvml, 0, ""), nvml, tmp_path, CAP)
    sampler.sample([sampled(folder, rank(3), slots=(1,), nodes=2)])
    reading = values(folder)
    assert {key: value for key, value in reading.items() if "gpu" in key} == {
        "system/node0/gpu0/utilisation": 0.5,
        "system/node0/gpu0/memory_bytes": 3 * GIB,
        "system/node0/gpu0/power_watts": 312.5,
        "system/node0/gpu0/temperature_celsius": 61.0,
    }
    assert reading["system/node0/rank3/rss_bytes"] > 1 << 20


def test_each_rank_has_its_own_share(folder: WorkFolder, tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "children = [subprocess.Popen([sys.executable, '-c', 'import sys; print(1, flush=True); sys.stdin.read()'],\n"
        "    env={**os.environ, 'RANK': str(number)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "    for number in (4, 5)]\n"
        "[child.stdout.read(1) for child in children]\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "[child.communicate() for child in children]\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    launcher = subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes)  # type: ignore[call-overload]
    launcher.stdout.read(5)
    try:
        sampler = SystemSampler(find_slots(None, 2, ""), None, tmp_path, CAP)
        sampler.sample([sampled(folder, launcher.pid, slots=(0, 1))])
    finally:
        launcher.communicate()
    ranks = {key.split("/")[1] for key in values(folder) if "rank" in key}
    assert ranks == {"rank4", "rank5"}, "the launcher above them is no rank"


def test_samples_that_cannot_be_sent_do_not_fill_the_disk(
    folder: WorkFolder, tmp_path: Path, rank: Callable[[int], int]
) -> None:
    folder.system_spool.write_bytes(b"x" * 5_000)
    slots: Slots = find_slots(None, 2, "")
    SystemSampler(slots, None, tmp_path, cap_bytes=4_096).sample([sampled(folder, rank(0))])
    assert folder.system_spool.stat().st_size == 5_000


async def test_an_agent_samples_its_attempts_while_they_run(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMASTER_AGENT_SYSTEM_INTERVAL_SECONDS", "1")
    go_on = tmp_path / "go-on"
    await agent.start()
    await gateway.want(wanted("att-test-1", "sh", "-c", f"while [ ! -e {go_on} ]; do sleep 0.1; done"))
    await gateway.until(lambda: gateway.spool("att-test-1", SYSTEM_RANK))
    go_on.touch()
    await gateway.until_drained("att-test-1")
    first = json.loads(gateway.spool("att-test-1", SYSTEM_RANK).splitlines()[0])
    assert first["values"]["system/rank0/rss_bytes"] > 0
