"""An endpoint whose replica is divided over two slots of a node, for real: it answers, and a lost rank is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.operations.platform.test_serving import PATIENCE, Endpoint, until
from trainmaster.client import Client
from webapp.operations.platform_process import PlatformProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * PATIENCE)]
MODEL = """
import torch
import torch.distributed as dist

class Model:
    def __init__(self, folder):
        assert dist.get_world_size() == 2

    def predict(self, rows):
        half = torch.tensor(rows, dtype=torch.float64).chunk(2, dim=1)[dist.get_rank()].sum(dim=1)
        dist.all_reduce(half)
        return half.tolist()
"""


def ranks(platform: PlatformProcess) -> list[psutil.Process]:
    """In their order, by the process ids that they leave in the folder of their attempt."""
    files = sorted(platform.folder.glob("agents/*/*/*/ranks/rank-*.pid"))
    return [psutil.Process(int(file.read_text())) for file in files]


def test_a_replica_on_two_slots_answers_and_is_replaced_when_it_loses_a_rank(
    serving: PlatformProcess, token: str, tmp_path: Path
) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    with Client(serving.url, token) as client:
        manifest = client.upload("model", "vision", "halves", [("model.py", file)])
        client.register_version("halves", team="vision", manifest=manifest)
        endpoint = Endpoint(client, token, "divided", 1, model="halves", gpus=2)

        def predict() -> Any:
            headers, body = {"Authorization": f"Bearer {token}"}, {"inputs": [[1, 2, 3, 4], [0, 0, 0, 5]]}
            answer = httpx.post(f"{endpoint.address}/predict", json=body, headers=headers, timeout=PATIENCE)
            return answer.json().get("outputs")

        try:
            until(endpoint.is_ready(1, 1), "the replica is ready")
            assert predict() == [10, 5]

            before = ranks(serving)
            assert len(before) == 2
            before[1].kill()
            _, alive = psutil.wait_procs(before, PATIENCE)
            assert alive == []
            until(lambda: predict() == [10, 5], "it was started again and answers")
        finally:
            endpoint.stop()
