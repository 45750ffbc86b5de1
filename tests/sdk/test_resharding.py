"""Sharded states under real torchrun: FSDP2 saves, and other numbers of ranks and layouts load."""

import json
from pathlib import Path

import pytest

from tests.sdk.scripts import run

SCRIPT = """
import os, sys, torch, trainmaster
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard

mode, layout = sys.argv[1:]
dist.init_process_group("gloo")
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 33), nn.ReLU(), nn.Linear(33, 5))
if layout == "fsdp":
    fully_shard(model[0])
    fully_shard(model)
wrapped = nn.parallel.DistributedDataParallel(model) if layout == "ddp" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

def train():
    torch.manual_seed(2)
    wrapped(torch.randn(8, 6)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()

def state():
    own = {"model": get_model_state_dict(wrapped), "optimizer": get_optimizer_state_dict(wrapped, optimizer)}
    return {**own, "seen": 9}

def whole(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().double().sum().item()

def said():
    own = state()
    parts = [whole(t) for t in own["model"].values()]
    parts += [whole(v) for p in own["optimizer"]["state"].values() for v in p.values() if isinstance(v, torch.Tensor)]
    return [round(part, 5) for part in parts]

if mode == "save":
    train()
    expected = said()
    trainmaster.save_checkpoint(state(), 7)
    train()  # while it is being written
    if dist.get_rank() == 0:
        print("SAID", expected)
else:
    into = state()
    loaded, step = trainmaster.load_checkpoint(into=into)
    set_model_state_dict(wrapped, loaded["model"])
    set_optimizer_state_dict(wrapped, optimizer, loaded["optimizer"])
    assert (step, loaded["seen"]) == (7, 9)
    values = said()
    if dist.get_rank() == 0:
        print("SAID", values)
dist.destroy_process_group()  # with the save in flight
"""


def said(folder: Path, ranks: int, mode: str, layout: str, **variables: object) -> list[float]:
    (folder / "sharded.py").write_text(SCRIPT)
    done = run(["sharded.py", mode, layout], folder, ranks=ranks, **variables)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("SAID")]
    values: list[float] = json.loads(line.removeprefix("SAID"))
    return values


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """Two ranks of FSDP2 saved."""
    folder = tmp_path_factory.mktemp("fsdp")
    return folder, said(folder, 2, "save", "fsdp")


def test_each_rank_of_a_sharded_model_writes_its_part(saved: tuple[Path, list[float]]) -> None:
    [folder] = (saved[0] / "trainmaster-runs").glob("*/checkpoints/step-*")
    index = json.loads((folder / "tensors.json").read_text())
    blocks = index["tensors"]["model.0.weight"]["blocks"]
    assert [block[:3] for block in blocks] == [
        [[0, 0], [17, 6], "rank-00000-000.safetensors"],
        [[17, 0], [16, 6], "rank-00001-000.safetensors"],
    ]


@pytest.mark.parametrize(("ranks", "layout"), [(1, "plain"), (4, "fsdp")])
def test_another_number_of_ranks_loads_it(saved: tuple[Path, list[float]], ranks: int, layout: str) -> None:
    folder, expected = saved
    assert said(folder, ranks, "load", layout, TRAINMASTER_RESUME="auto") == pytest.approx(expected, abs=1e-4)


def test_the_groups_of_a_script_end_when_it_destroys_them(tmp_path: Path) -> None:
    """A thread of a group that is still there when the interpreter ends may abort the process. As in ranks that the
    platform starts, what would keep the group in its defaults is imported before there is one."""
    (tmp_path / "leaves.py").write_text(
        "import gc, weakref, torch, trainmaster, torch.distributed.checkpoint, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "world = weakref.ref(dist.group.WORLD)\n"
        "trainmaster.save_checkpoint({'weight': torch.ones(3)}, 1)\n"
        "dist.destroy_process_group()\n"
        "gc.collect()\n"
        "assert world() is None\n"
    )
    run(["leaves.py"], tmp_path, ranks=2)


def test_fsdp_loads_what_ddp_saved(tmp_path: Path) -> None:
    expected = said(tmp_path, 2, "save", "ddp")
    assert said(tmp_path, 2, "load", "fsdp", TRAINMASTER_RESUME="auto") == pytest.approx(expected, abs=1e-4)
