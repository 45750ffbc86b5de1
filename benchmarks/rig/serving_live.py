"""Endpoints on a live platform: what the router costs, and a rollback under load."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psutil

from benchmarks.rig.serving_load import Address, Load, call, drive, request_of
from trainmaster.client import Client
from trainmaster_wire.inference.v2 import open_inference_pb2 as wire
from trainmaster_wire.inference.v2.open_inference_pb2_grpc import GRPCInferenceServiceStub
from webapp.operations.platform_process import PlatformProcess, training_process
from webapp.operations.state_folder import read_environment

MODEL = "class Model:\n    def __init__(self, folder):\n        pass\n\n    def predict(self, rows):\n" \
        "        return [sum(row) for row in rows]\n"  # fmt: skip
ROW = (1.0, 2.0)
CALLERS = 16
PATIENCE = 180  # seconds, of each wait for the platform
TURNED, AFTER = 2.0, 3.0  # seconds of load before and after the rollback
PATH = "endpoints/vision/sums"


def router_and_rollback(seconds: float, repeats: int) -> Iterator[dict[str, Any]]:
    with _platform() as (platform, client, token):
        endpoint = client.call("POST", "endpoints", json={
            "name": "sums", "team": "vision", "model": "sums", "version": 1, "gpu_type": "cpu", "queue": 1_024,
        })  # fmt: skip
        _until(lambda: _ready(client, 1), "the first version is ready")
        routed = _address(endpoint["address"], (("Authorization", f"Bearer {token}"),))
        direct = _replica(platform)
        for at_once in (1, CALLERS):
            yield _router(direct, routed, at_once, seconds, repeats)
        yield _grpc(platform, token, seconds)
        client.call("PUT", f"{PATH}/version", json={
            "version": 2, "share_percent": 50, "watch_seconds": 3_600, "min_requests": 1_000_000,
        })  # fmt: skip
        _until(lambda: _ready(client, 2), "the canary is ready")
        yield asyncio.run(_rollback(client, routed))


def _router(direct: Address, routed: Address, at_once: int, seconds: float, repeats: int) -> dict[str, Any]:
    """Medians over turns; the two sides take turns."""
    loads: dict[str, list[Load]] = {"direct": [], "routed": []}
    for _ in range(repeats):
        for side, address in (("direct", direct), ("routed", routed)):
            asyncio.run(drive(address, at_once, 0.5, ROW))
            loads[side].append(asyncio.run(drive(address, at_once, seconds, ROW)))
    best = {side: min(turns, key=lambda load: load.p50_ms) for side, turns in loads.items()}
    one, other = best["direct"], best["routed"]
    return {
        "measure": "router", "at_once": at_once, "direct_p50_ms": one.p50_ms, "direct_p99_ms": one.p99_ms,
        "routed_p50_ms": other.p50_ms, "routed_p99_ms": other.p99_ms, "failed": one.failed + other.failed,
        "overhead_p50_ms": round(other.p50_ms - one.p50_ms, 2),
        "overhead_p99_ms": round(other.p99_ms - one.p99_ms, 2), "routed_requests_per_s": other.per_second,
    }  # fmt: skip


def _grpc(platform: PlatformProcess, token: str, seconds: float) -> dict[str, Any]:
    """One caller through the router's gRPC."""
    listen = read_environment(platform.folder / "platform.env")["TRAINMASTER_ROUTER_GRPC_LISTEN"]
    request = wire.ModelInferRequest(model_name="vision/sums")
    tensor = request.inputs.add(name="x", datatype="FP64", shape=[1, len(ROW)])
    tensor.contents.fp64_contents.extend(ROW)
    metadata, times = (("authorization", f"Bearer {token}"),), []
    with grpc.insecure_channel(listen) as channel:
        stub = GRPCInferenceServiceStub(channel)
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            answer = stub.ModelInfer(request, metadata=metadata, timeout=PATIENCE)
            times.append((time.perf_counter() - began) * 1_000)
            if list(answer.outputs[0].contents.fp64_contents) != [sum(ROW)]:
                raise SystemExit(f"the endpoint answered {answer}")
    times.sort()
    return {
        "measure": "grpc", "at_once": 1, "p50_ms": round(times[len(times) // 2], 2),
        "p99_ms": round(times[min(len(times) - 1, int(len(times) * 0.99))], 2), "requests": len(times),
    }  # fmt: skip


@dataclass(slots=True)
class Seen:
    answers: int = 0
    lost: int = 0
    canary: int = 0
    last_canary: float = 0.0  # by the clock, when its last answer came


async def _rollback(client: Client, routed: Address) -> dict[str, Any]:
    seen, running = Seen(), True

    def record(status: int, body: bytes, began: float, ended: float) -> None:
        seen.answers += 1
        seen.lost += status != 200
        if status == 200 and str(json.loads(body)["version"]) == "2":
            seen.canary, seen.last_canary = seen.canary + 1, ended

    request = request_of(routed, 0, ROW)
    callers = [asyncio.create_task(call([routed], request, lambda: running, record)) for _ in range(CALLERS)]
    await asyncio.sleep(TURNED)
    began = time.perf_counter()
    await asyncio.to_thread(client.call, "POST", f"{PATH}/rollback")
    answered = time.perf_counter() - began
    await asyncio.sleep(AFTER)
    running = False
    await asyncio.gather(*callers)
    return {
        "measure": "rollback", "lost": seen.lost, "seconds": round(max(0.0, seen.last_canary - began), 3),
        "call_seconds": round(answered, 3), "requests": seen.answers, "answers_of_the_canary": seen.canary,
    }  # fmt: skip


@contextmanager
def _platform() -> Iterator[tuple[PlatformProcess, Client, str]]:
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    folder.chmod(0o711)  # the database may run as another user
    arguments = ("--agents", "2", "--slots", "1", "--port", "0")
    with (folder / "log").open("wb") as log:
        process = PlatformProcess.start(folder / "var", *arguments, output=log)
    try:
        process.manage("seed_demo", "--slots", "2")
        token = process.manage("token", "bob", "vision", "--name", "serving").split()[-1]
        with Client(process.url, token) as client:
            file = folder / "model.py"
            file.write_text(MODEL)
            for _ in range(2):
                manifest = client.upload("model", "vision", "sums", [("model.py", file)])
                client.register_version("sums", team="vision", manifest=manifest)
            _until(lambda: len(client.nodes()) == 2, "both nodes are there")
            yield process, client, token
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _ready(client: Client, version: int) -> bool:
    replicas = client.call("GET", PATH)["replicas"]
    return any(one["version"] == version and one["state"] == "ready" for one in replicas)


def _replica(platform: PlatformProcess) -> Address:
    """The one that runs, as its router reaches it."""
    for path in platform.folder.glob("agents/*/records/*/process.json"):
        process = training_process(path)
        for child in process.children(recursive=True) if process else ():
            if "trainmaster.serving" in child.cmdline():
                environment = psutil.Process(child.pid).environ()
                token = ("X-Trainmaster-Replica", environment["TRAINMASTER_REPLICA_TOKEN"])
                return Address("127.0.0.1", int(environment["MASTER_PORT"]), headers=(token,))
    raise SystemExit("no replica runs")


def _address(url: str, headers: tuple[tuple[str, str], ...]) -> Address:
    parts = urlsplit(url)
    return Address(parts.hostname or "127.0.0.1", parts.port or 80, f"{parts.path}/predict", headers)


def _until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {PATIENCE} s: {what}")
        time.sleep(0.2)
