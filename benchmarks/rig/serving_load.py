"""The model, the servers and the one load generator of `benchmarks.serving`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FEATURES = 1024
PEERS = Path(__file__).with_name("serving_peers")  # no package: a peer needs nothing of ours
START_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    path: str


@dataclass(frozen=True, slots=True)
class Load:
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


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
def best(rows):
    x, times = torch.randn(rows, 1024), []
    with torch.inference_mode():
        until = time.perf_counter() + 3
        while time.perf_counter() < until:
            began = time.perf_counter(); module(x); times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]
alone = best(1)
print(json.dumps({"one_row_ms": round(alone * 1000, 2), "rows_per_s": round(max(n / best(n) for n in (32, 64)))}))
"""


def bare(folder: str) -> dict[str, float]:
    """The model alone, in a process of its own with one thread."""
    done = subprocess.run(
        [sys.executable, "-c", BARE, folder], check=True, capture_output=True, text=True, env=one_thread()
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def one_thread() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@contextlib.contextmanager
def serve(name: str, model: Path, peers: str) -> Iterator[Server]:
    """A server as a process, ready to answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if name == "ours":
        command = [sys.executable, "-m", "trainmaster.serving", str(model), "--port", str(port),
                   "--max-batch", "64", "--queue", "512"]  # fmt: skip
    else:
        python = sys.executable if name == "unbatched" else peers
        command = [python, str(PEERS / f"run_{name}.py"), str(model), str(port)]
    process = subprocess.Popen(command, env=one_thread(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)  # fmt: skip
    server = Server(port, "/predict")
    try:
        wait_until_it_answers(server, process)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_it_answers(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with code {process.returncode} before it answered")
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            if not asyncio.run(drive(server, 1, 0.01)).failed:
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} did not answer within {START_SECONDS} s")
        time.sleep(0.2)


async def drive(server: Server, at_once: int, seconds: float) -> Load:
    """Closed loop: each of `at_once` connections sends its next request when the last one is answered."""
    until = time.perf_counter() + seconds
    latencies: list[float] = []
    failures = await asyncio.gather(*(_caller(server, until, latencies, seed) for seed in range(at_once)))
    ordered = sorted(latencies) or [0.0]
    return Load(
        per_second=round(len(latencies) / seconds, 1),
        p50_ms=round(statistics.median(ordered) * 1000, 2),
        p99_ms=round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 2),
        failed=sum(failures),
    )


async def _caller(server: Server, until: float, latencies: list[float], seed: int) -> int:
    request, failed = request_of(server, seed), 0
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        while True:
            began = time.perf_counter()
            writer.write(request)
            status = await _answer(reader)
            ended = time.perf_counter()
            if status == 200:
                latencies.append(ended - began)
            else:
                failed += 1
            if ended >= until:
                return failed
    finally:
        writer.close()


def request_of(server: Server, seed: int) -> bytes:
    rng = random.Random(seed)
    body = json.dumps({"inputs": [[round(rng.gauss(0, 1), 4) for _ in range(FEATURES)]]}).encode()
    head = f"POST {server.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def _answer(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])
