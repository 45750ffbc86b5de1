"""vLLM as a process beside the model server; a stand-in with its HTTP takes its place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.serving.processes import PATIENCE, STAND_IN, Server, serving
from trainmaster.serving import vllm
from trainmaster.serving.runtimes.custom import LoadError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def server(folder: Path, unused_tcp_port: int) -> Iterator[Server]:
    options = ("--runtime", "vllm", "--name", "chat", "--gpus", "2")
    with serving(folder, unused_tcp_port, *options, PYTHONPATH=STAND_IN) as server:
        yield server


def test_callers_reach_what_vllm_has_under_v1(server: Server) -> None:
    [model] = server.client.get("/v1/models").json()["data"]
    assert (model["id"], model["gpus"]) == ("chat", 2)
    asked = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}
    answer = server.client.post("/v1/chat/completions", json=asked).json()
    assert answer["choices"][0]["message"]["content"] == "Hello"
    unknown = server.client.post("/v1/completions", json={"model": "other", "prompt": "a"})
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "NotFoundError")
    elsewhere = server.client.post("/predict", json={"inputs": [[1]]})
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (404, "chat is served by vLLM; call /v1")


def test_secrets_of_callers_stay_here(server: Server) -> None:
    headers = {"Authorization": "Bearer tm_secret"}
    asked = {"model": "chat", "prompt": "hello"}
    assert server.client.post("/v1/completions", json=asked, headers=headers).json()["secret"] is None


def test_a_replica_ends_with_its_vllm(server: Server) -> None:
    answer = server.client.post("/v1/completions", json={"model": "chat", "prompt": "end"})
    assert answer.status_code == 503  # the router asks another replica
    assert server.process.wait(PATIENCE) == 3


def test_what_vllm_cannot_load_ends_the_server(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainmaster.serving", str(tmp_path), "--runtime", "vllm"]
    ended = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": STAND_IN},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 2
    # Its last line, which the agent quotes as the reason of its end.
    assert ended.stdout.splitlines()[-1].startswith("LoadError: vLLM ended with code 1 before it had loaded")


def test_a_python_without_vllm_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "find_spec", lambda name: None)
    with pytest.raises(LoadError, match="needs vllm, which this Python does not have"):
        vllm.start(folder, "chat", 1)
