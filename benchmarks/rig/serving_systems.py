"""The model of `benchmarks.serving`, alone and behind each server, of which one at a time runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.serving_load import FEATURES, Address, drive

PEERS = Path(__file__).with_name("serving_peers")  # no package: a peer needs nothing of ours
START_SECONDS = 90
STOP_SECONDS = 5


def make_model(folder: str) -> None:
    import torch

    torch.manual_seed(1)
    layers = [torch.nn.Linear(FEATURES, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096), torch.nn.ReLU()]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(4096, 10)).eval()
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(module, (torch.zeros(2, FEATURES),), dynamic_shapes=({0: batch},))
    torch.export.save(program, str(Path(folder) / "model.pt2"))


BARE = """
import json, sys, time, torch
torch.set_num_threads(1)
module = torch.export.load(sys.argv[1] + "/model.pt2").module()
def times(rows, seconds):
    x, times = torch.randn(rows, 1024), []
    with torch.inference_mode():
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            began = time.perf_counter(); module(x); times.append(time.perf_counter() - began)
    return sorted(times)
for line in sys.stdin:
    seconds = float(line)
    alone, best = times(1, seconds), {}
    for rows in (32, 64):
        best[rows] = times(rows, seconds)
    rows = max(best, key=lambda rows: rows / best[rows][len(best[rows]) // 2])
    batch = best[rows]
    p50, p99 = batch[len(batch) // 2] * 1000, batch[min(len(batch) - 1, int(len(batch) * 0.99))] * 1000
    print(json.dumps({"one_row_ms": round(alone[len(alone) // 2] * 1000, 2), "batch": rows,
                      "rows_per_s": round(rows / p50 * 1000, 1), "p50_ms": round(p50, 2), "p99_ms": round(p99, 2)}),
          flush=True)
"""


@dataclass(frozen=True, slots=True)
class System:
    """A process of its own, stopped by a signal while another one is measured."""

    name: str
    process: subprocess.Popen[str]
    address: Address

    @contextlib.contextmanager
    def running(self) -> Iterator[Address]:
        os.killpg(self.process.pid, signal.SIGCONT)
        try:
            yield self.address
        finally:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def bare(self, seconds: float) -> dict[str, float]:
        """Of the model alone: one row, and its best batch."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self.running():
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
            figures: dict[str, float] = json.loads(self.process.stdout.readline())
        return figures


@contextlib.contextmanager
def systems(names: Sequence[str], folder: Path, peers: Path) -> Iterator[dict[str, System]]:
    """Each started once and found ready, then stopped until its turn: starting again each turn costs minutes."""
    with contextlib.ExitStack() as stack:
        started = {}
        for name in names:
            started[name] = stack.enter_context(_started(name, folder, peers))
        yield started


@contextlib.contextmanager
def _started(name: str, folder: Path, peers: Path) -> Iterator[System]:
    port = free_port()
    python = sys.executable if name in ("bare", "unbatched") else str(peers)
    command = [python, str(PEERS / f"run_{name}.py"), str(folder), str(port)]
    if name == "ours":
        command = [sys.executable, "-m", "trainmaster.serving", str(folder), "--port", str(port)]
        command += ["--max-batch", "64", "--queue", "512"]
    elif name == "bare":
        command = [sys.executable, "-c", BARE, str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    output = subprocess.PIPE if name == "bare" else subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=output,
                               stderr=subprocess.DEVNULL, start_new_session=True, text=True)  # fmt: skip
    system = System(name, process, Address("127.0.0.1", port))
    try:
        if name != "bare":
            _wait_until_it_answers(system)
        os.killpg(process.pid, signal.SIGSTOP)
        yield system
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process hears only when it goes on
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_until_it_answers(system: System) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        if system.process.poll() is not None:
            raise SystemExit(f"{system.name} ended with code {system.process.returncode} before it answered")
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            load = asyncio.run(drive(system.address, 1, 0.01))
            if load.p50_ms and not load.failed:
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"{system.name} did not answer within {START_SECONDS} s")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
