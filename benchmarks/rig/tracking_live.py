"""Points a second into a running server: by log-batch into ours and into a real `mlflow server`, and by the uplink."""

import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tools import mlflow_venv
from trainmaster import bundle
from trainmaster.client import Client
from webapp.operations.embedded import Postgres, running
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.state_folder import read_environment

CLIENTS, METRICS, STEPS = 8, 10, 100  # a batch has 1,000 points
WARM_UP_S = 2.0
UPLINK_STEPS = 30_000
SCRIPT = f"""
import trainmaster
trainmaster.init()
for step in range({UPLINK_STEPS}):
    trainmaster.log(step, **{{f"metric{{n}}": step * 0.001 + n for n in range({METRICS})}})
"""


@contextmanager
def peer() -> Iterator[str]:
    """The address of MLflow with its default of four workers, on a database server of the same wheel and settings."""
    python = mlflow_venv.ensure()
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    folder.chmod(0o711)
    postgres = Postgres(folder / "postgres", free_port(), secrets.token_hex(8), folder / "postgres.log")
    try:
        with running(postgres):
            port = free_port()
            backend = postgres.url.replace("postgresql://", "postgresql+psycopg2://")
            command = [
                str(python),
                "-m",
                "mlflow",
                "server",
                "--backend-store-uri",
                backend,
                "--port",
                str(port),
            ]
            arguments = [
                *command,
                "--host",
                "127.0.0.1",
                "--artifacts-destination",
                str(folder / "artifacts"),
            ]
            with (folder / "mlflow.log").open("wb") as log:
                process = subprocess.Popen(
                    arguments, stdout=log, stderr=log, cwd=folder, start_new_session=True
                )
                try:
                    wait_for(port, process, folder / "mlflow.log")
                    yield f"http://127.0.0.1:{port}"
                finally:
                    os.killpg(process.pid, 15)
                    process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            Mlflow(f"http://127.0.0.1:{port}", "").get("/health")
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"mlflow server does not answer:\n{log.read_text()[-3000:]}")
            time.sleep(0.2)


class Mlflow:
    """One client with one connection."""

    def __init__(self, url: str, token: str) -> None:
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def get(self, path: str) -> None:
        self._connection.request("GET", path, headers=self._headers)
        self._connection.getresponse().read()

    def post(self, path: str, body: bytes) -> Any:
        self._connection.request("POST", f"/api/2.0/mlflow/{path}", body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text[:300]!r}")
        return json.loads(text or b"{}")

    def call(self, path: str, **body: Any) -> Any:
        return self.post(path, json.dumps(body).encode())


def batch(run: str, number: int) -> bytes:
    now = 1_790_000_000_000
    metrics = [
        {
            "key": f"metric{key}",
            "value": (step * 7919 % 10_007) / 10_007 + key,
            "timestamp": now + step,
            "step": step,
        }
        for step in range(number * STEPS, (number + 1) * STEPS)
        for key in range(METRICS)
    ]
    return json.dumps({"run_id": run, "metrics": metrics}).encode()


def rate(url: str, token: str, seconds: float) -> float:
    """Points a second that were answered, of all clients together."""
    experiment = Mlflow(url, token).call("experiments/create", name=f"bench-{uuid.uuid4().hex[:8]}")
    done = [0] * CLIENTS
    begin, end = time.monotonic() + WARM_UP_S, time.monotonic() + WARM_UP_S + seconds
    failures: list[Exception] = []

    def send(index: int) -> None:
        try:
            client = Mlflow(url, token)
            made = client.call("runs/create", experiment_id=experiment["experiment_id"], start_time=1)
            run, number = made["run"]["info"]["run_id"], 0
            while (sent := time.monotonic()) < end:
                client.post("runs/log-batch", batch(run, number))
                number += 1
                done[index] += sent >= begin and time.monotonic() <= end
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(done) * METRICS * STEPS / seconds


@contextmanager
def platform(*arguments: str) -> Iterator[tuple[PlatformProcess, str]]:
    """A fresh platform and the token of a member of the team vision."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    folder.chmod(0o711)
    with (folder / "up.log").open("wb") as log:
        process = PlatformProcess.start(folder / "var", *arguments, output=log)
    try:
        process.manage("seed_demo", "--slots", "2")
        yield process, process.manage("token", "bob", "vision", "--name", "bench").split()[-1]
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def uplink() -> float:
    """From the first call of log() to the moment at which the store has the last point."""
    with platform("--agents", "1") as (process, token), tempfile.TemporaryDirectory() as folder:
        environment = read_environment(process.folder / "platform.env")
        Path(folder, "train.py").write_text(SCRIPT)
        with Client(process.url, token) as client:
            code = client.upload("code", "vision", "bench", bundle.code_files(Path(folder)))
            spec = {"name": "bench", "team": "vision", "gpu_type": "cpu", "num_gpus": 1, "strategy": "custom"}
            job = client.submit(
                {**spec, "command": "python train.py", "code": code, "max_runtime_hours": 1},
                idempotency_key=uuid.uuid4().hex,
            )
            began_ms, ended_ms = arrival(environment, lambda: client.job(job.id))
    return UPLINK_STEPS * METRICS / ((ended_ms - began_ms) / 1000)


def arrival(environment: Mapping[str, str], job: Any) -> tuple[float, float]:
    """The time of the first point, and the time at which all were there."""
    query = "SELECT min(low_ms), sum(count) FROM metrics_series WHERE key LIKE 'metric%'"
    deadline = time.monotonic() + 300
    row = None
    with psycopg.connect(environment["DATABASE_URL"], autocommit=True) as connection:
        while time.monotonic() < deadline:
            row = connection.execute(query).fetchone()
            if row and row[1] == UPLINK_STEPS * METRICS:
                return row[0], time.time() * 1000
            time.sleep(0.05)
    sys.exit(f"the points did not arrive: {row}, {job()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
