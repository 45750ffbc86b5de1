"""Jobs on the GPUs of this machine, through the whole platform."""

from __future__ import annotations

import re
import runpy
import uuid
from pathlib import Path

import httpx
import pytest

from platform_core.node.description import SlotDescription
from tests.e2e.site import EXAMPLE, until
from tests.gpu.conftest import ready
from trainmaster import bundle
from trainmaster.answers import Job
from trainmaster.client import Client
from webapp.operations.platform_process import PlatformProcess

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(600)]
ALL_REDUCE = """
import torch, torch.distributed as dist

dist.init_process_group("nccl")
device = torch.device("cuda", dist.get_node_local_rank())
torch.cuda.set_device(device)
total = torch.ones(1 << 20, device=device) * (dist.get_rank() + 1)
dist.all_reduce(total)
version = ".".join(map(str, torch.cuda.nccl.version()))
print(f"NCCL {version}: {dist.get_world_size()} ranks sum to {int(total[0].item())}", flush=True)
dist.destroy_process_group()
"""
# Wide enough that the GPU is seen at work.
WIDE = {"layers": 8, "width": 512, "heads": 8, "context": 256, "batch": 64, "steps": 600, "eval_every": 200}


def submit(client: Client, name: str, gpus: int, gpu_type: str, **fields: object) -> Job:
    spec = {
        "name": name, "team": "vision", "gpu_type": gpu_type, "num_gpus": gpus, "strategy": "ddp",
        "max_runtime_hours": 1, **fields,
    }  # fmt: skip
    return client.submit(spec, idempotency_key=str(uuid.uuid4()))


def finished(client: Client, job: Job) -> Job:
    def look() -> Job | None:
        now = client.job(job.id)
        return now if now.is_finished else None

    ended = until(f"the end of {job.name}", look)
    lines = "\n".join(line.text for line in client.logs(job.id).lines[-20:])
    assert ended.state == "succeeded", f"{ended.reason}\n{lines}"
    return ended


def node_page(url: str, node_id: str) -> str:
    """As bob sees it in his browser."""
    with httpx.Client(base_url=url, headers={"Referer": url}, timeout=30) as browser:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/login/").text)
        assert token is not None
        login = {"username": "bob", "password": "bob-demo", "csrfmiddlewaretoken": token[1]}
        browser.post("/login/", data=login)
        return browser.get(f"/nodes/{node_id}/").raise_for_status().text


def test_ranks_reduce_over_nccl(bob: Client, gpus: tuple[SlotDescription, ...], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALL_REDUCE)
    code = bob.upload("code", "vision", "nccl", bundle.code_files(tmp_path))
    node = until("a ready node", lambda: ready(bob))
    job = submit(bob, "nccl", len(gpus), node.gpu_type, command="train.py", code=code)
    finished(bob, job)
    count = len(gpus)
    text = "\n".join(line.text for line in bob.logs(job.id).lines)
    assert f"{count} ranks sum to {count * (count + 1) // 2}" in text


def test_bytelm_learns_on_the_gpus_and_the_page_shows_them_at_work(
    bob: Client, platform: PlatformProcess, gpus: tuple[SlotDescription, ...], tmp_path: Path
) -> None:
    code = bob.upload("code", "vision", "bytelm", bundle.code_files(EXAMPLE))
    collect = runpy.run_path(str(EXAMPLE / "prepare.py"))["collect"]
    manifest = bob.upload("dataset", "vision", "stdlib", bundle.data_files(collect(tmp_path / "stdlib")))
    data = bob.add_snapshot("stdlib", team="vision", manifest=manifest, purpose="training").id
    node = until("a ready node", lambda: ready(bob))
    job = submit(
        bob, "bytelm", len(gpus), node.gpu_type, command="train.py", code=code, dataset=data,
        purpose="training", hyperparameters=WIDE, checkpoint={"interval_steps": 200, "keep_last": 1},
    )  # fmt: skip
    until("a busy GPU", lambda: (now := ready(bob)) and (now.utilisation or 0) > 0)
    page = node_page(platform.url, node.id)
    assert "Temperature" in page
    assert "<dt>GPU driver</dt>" in page
    assert "<dt>CUDA of PyTorch</dt>" in page
    assert gpus[0].name in page
    ended = finished(bob, job)
    assert ended.latest_checkpoint
    assert bob.metrics(job.id)["summary"]["bits_per_byte"]["value"] < 5  # an untrained model needs 8
