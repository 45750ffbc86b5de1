"""A model divided over two real ranks, which torchrun starts: it answers as one process does, and ends as a whole."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import torch

from tests.sdk.serving.processes import PATIENCE, Server, serving

MODEL = """
import torch
import torch.distributed as dist

class Model:
    def __init__(self, folder):
        self.divided = dist.is_initialized()
        self.rank = dist.get_rank() if self.divided else 0
        size = dist.get_world_size() if self.divided else 1
        self.weight = torch.load(folder / "weight.pt").chunk(size, dim=1)[self.rank]

    def summed(self, tensor):
        if self.divided:
            dist.all_reduce(tensor)
        return tensor

    def predict(self, rows):
        part = torch.tensor(rows).split(self.weight.shape[1], dim=1)[self.rank]
        if part.isnan().any():
            raise ValueError("a part is no number")
        return self.summed(part @ self.weight.T).tolist()

    def stream(self, request):
        for number in range(request["max_tokens"]):
            yield f"{int(self.summed(torch.tensor([number + 1.0])))} "
"""
ROWS = [[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 0.25], [0.0, 0.0, 0.0, 9.0]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(3))
    torch.save(weight, tmp_path / "weight.pt")
    return tmp_path


def ranks(server: Server) -> list[int]:
    """Children of the server that forks them, whose command line they have."""
    forked = [pid for pid, line in server.children() if "multiprocessing.forkserver" in line]
    return [pid for pid in forked if psutil.Process(pid).ppid() in forked]


def predict(server: Server, rows: Any) -> httpx.Response:
    return server.client.post("/predict", json={"inputs": rows})


def test_two_ranks_answer_as_one_process(folder: Path, unused_tcp_port_factory: Any) -> None:
    with serving(folder, unused_tcp_port_factory()) as alone:
        expected = predict(alone, ROWS).json()["outputs"]
    with serving(folder, unused_tcp_port_factory(), "--gpus", "2") as server:
        assert len(ranks(server)) == 2
        outputs = predict(server, ROWS).json()["outputs"]
        torch.testing.assert_close(torch.tensor(outputs), torch.tensor(expected))

        asked = {"prompt": "", "max_tokens": 3}
        text = server.client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
        assert text == "2 4 6 "

        # Both ranks refuse the first row. Only the second rank refuses the other one, whose last part is no number.
        assert predict(server, [[1.0]]).status_code == 500
        body = '{"inputs": [[NaN, 0, NaN, 0]]}'
        assert server.client.post("/predict", content=body).status_code == 500
        assert predict(server, ROWS).json()["outputs"] == outputs


@pytest.mark.parametrize("rank", [0, 1])
def test_a_replica_without_one_of_its_ranks_ends(folder: Path, rank: int, unused_tcp_port: int) -> None:
    with serving(folder, unused_tcp_port, "--gpus", "2") as server:
        assert predict(server, ROWS).status_code == 200
        os.kill(ranks(server)[rank], signal.SIGKILL)
        assert server.process.wait(PATIENCE) != 0
        with pytest.raises(httpx.TransportError):
            predict(server, ROWS)


def test_a_replica_that_is_stopped_leaves_no_rank(folder: Path, unused_tcp_port: int) -> None:
    with serving(folder, unused_tcp_port, "--gpus", "2") as server:
        left = ranks(server)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(PATIENCE)
        assert [pid for pid in left if Path(f"/proc/{pid}").exists()] == []
