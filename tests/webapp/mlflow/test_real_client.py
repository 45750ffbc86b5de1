"""The real MLflow client against this server: compared field by field with a real MLflow server, and autologging."""

import io
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.webapp.conftest import Cast
from tests.webapp.mlflow.conftest import token_of
from tools import mlflow_venv
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.deployments import services as deployments
from webapp.experiments import file_uploads
from webapp.experiments import services as experiments
from webapp.experiments.files import Owner
from webapp.experiments.models import Run, RunFile
from webapp.metrics import queries as metrics
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion

SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 300
# What may differ, by the name of the step and the field; docs/reference/mlflow.md says why.
ALLOWED = {
    "rename deleted.status": "409 instead of 500, which clients try again",
    "rename deleted.code": "the client reads INTERNAL_ERROR out of a 500",
    "rename deleted.message": "the same",
    "bad filter.message": "the known fields come in order",
    "bad order.message": "the known fields come in order",
    "bad model filter.message": "the known fields come in order",
}


def is_allowed(place: str) -> bool:
    """A workspace is the team here, and "default" there."""
    return place in ALLOWED or place.endswith(".workspace")


def environment(address: str, token: str = "") -> dict[str, str]:
    chosen = {
        "MLFLOW_TRACKING_URI": address,
        "MLFLOW_TRACKING_TOKEN": token,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "GIT_PYTHON_REFRESH": "quiet",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return {**os.environ, **chosen}


def start(script: str, address: str, token: str = "", *arguments: str, **more: str) -> subprocess.Popen[str]:
    command = [str(mlflow_venv.ensure()), "-W", "ignore", str(SCRIPTS / script), *arguments]
    return subprocess.Popen(
        command,
        env=environment(address, token) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err[-3000:]
    return [line for line in out.splitlines() if line.startswith(("[", "{"))]


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[str]:
    """The address of a real MLflow server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(mlflow_venv.ensure()), "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///peer.db",
        "--artifacts-destination", "./artifacts", "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment(""), stdout=log, stderr=log)
        try:
            _wait_for(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)  # the server says nothing when it is ready
    raise AssertionError("the MLflow server did not start")


def differences(theirs: Any, ours: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from differences(theirs.get(key, "<none>"), ours.get(key, "<none>"), f"{place}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif theirs != ours:
        yield place, theirs, ours


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.django_db(transaction=True)
def test_the_answers_are_those_of_a_real_mlflow_server(live_server: Any, cast: Cast, peer: str) -> None:
    processes = [
        start("everything.py", peer),
        start("everything.py", live_server.url, token_of(cast.owner)),
    ]
    theirs, ours = ([json.loads(line) for line in output(process)] for process in processes)
    assert [step for step, _ in ours] == [step for step, _ in theirs]
    found = [
        difference
        for (step, one), (_, other) in zip(theirs, ours, strict=True)
        for difference in differences(one, other, step)
    ]
    assert [difference for difference in found if not is_allowed(difference[0])] == []


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.django_db(transaction=True)
def test_autologging_of_scikit_learn_and_lightning_works_unchanged(live_server: Any, cast: Cast) -> None:
    [line] = output(start("autolog.py", live_server.url, token_of(cast.owner)))
    learned = json.loads(line)
    sklearn, lightning = learned["sklearn"], learned["lightning"]
    assert (sklearn["status"], sklearn["alpha"], sklearn["same"]) == ("FINISHED", "0.5", True)
    assert "training_mean_squared_error" in sklearn["metrics"]
    assert sklearn["inputs"] >= 1
    assert sklearn["outputs"] >= 1
    version = ModelVersion.objects.select_related("model", "manifest").get()
    assert (version.model.name, version.state, version.run_id) == ("Ridge Model", "ready", sklearn["run"])
    assert version.manifest is not None
    assert "MLmodel" in {file["path"] for file in version.manifest.document["files"]}
    assert (lightning["status"], lightning["epochs"], lightning["points"]) == ("FINISHED", "3", 3)
    assert Run.objects.get(id=lightning["run"]).source == "mlflow"
    assert "train/loss" in metrics.keys([lightning["run"]])


# A model of the platform that a client can load: MLflow's description, and code that doubles what it is given.
DOUBLER = {
    "model/MLmodel": "flavors:\n  python_function:\n    loader_module: doubler\n    code: code\n    data: data\n",
    "model/code/doubler.py": (
        "class Doubler:\n    def predict(self, data):\n        return [2 * value for value in data]\n\n\n"
        "def _load_pyfunc(path):\n    return Doubler()\n"
    ),
    "model/data/factor.txt": "2",
}
IN_PARTS = {
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "true",
    "MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE": str(5 * 2**20),
    "MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE": str(5 * 2**20),
}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.django_db(transaction=True)
def test_models_go_both_ways_and_large_files_come_in_parts(
    live_server: Any, cast: Cast, node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = actor_of(cast.owner)
    run = experiments.create_run(alice, experiments.ensure_experiment(alice, "vision", "doubling"))
    for path, text in DOUBLER.items():
        experiments.put_file(alice, run, path, io.BytesIO(text.encode()))
    doubler = registry.create_model(alice, "vision", "doubler")
    registry.set_alias(alice, registry.register_logged(alice, doubler, "", files=(run, "model")), "champion")
    joined: list[int] = []
    complete = file_uploads.complete

    def counted(actor: Actor, owner: Owner, upload_id: str) -> RunFile:
        joined.append(file_uploads.FileUpload.objects.get(id=upload_id).parts)
        return complete(actor, owner, upload_id)

    monkeypatch.setattr(experiments, "complete_upload", counted)
    script = start("models.py", live_server.url, token_of(cast.owner), "doubler", **IN_PARTS)
    learned = json.loads(output(script)[0])
    assert learned["uri"].startswith("mlflow-artifacts:/cellar/wine/")
    assert (learned["status"], learned["same"], joined) == ("READY", True, [3])
    assert learned["files"] == ["notes.txt", "weights.bin"]
    assert learned["doubled"] == [2.0, 5.0]
    assert {"MLmodel", "code", "data"} <= set(learned["ours"])
    node("node-0")
    deployment = deployments.create(alice, "vision/large", int(learned["version"]))
    files = deployment.model_version.manifest.document["files"]
    assert [(file["path"], file["size"]) for file in files] == [
        ("notes.txt", 5),
        ("weights.bin", 12 * 2**20 + 256),
    ]
