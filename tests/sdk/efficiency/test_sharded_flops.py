"""Ranks that share a model count their own part of it: the sum over all ranks is what one process counts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.sdk import scripts

# Two processes over gloo: each kind of parallelism trains the same model for a step, and counts it.
SCRIPT = """
import json, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module,
)
from torch.utils.checkpoint import checkpoint
from trainmaster.efficiency.flops import FlopCount

WIDTH, BATCH, LENGTH = 32, 4, 8

def model(): return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
def inputs(batch=BATCH): return torch.randn(batch, LENGTH, WIDTH, requires_grad=True)

def counted(step):
    count = FlopCount.begin()
    if count is None:
        return "nothing"
    step()
    flops = count.end()
    return flops.total if flops.missing is None else flops.missing.name

def step_of(module, batch=BATCH):
    return counted(lambda: module(inputs(batch)).sum().backward())

def experts():
    own = nn.Linear(WIDTH, WIDTH)   # each rank has one expert, and the half of the samples that were sent to it
    return step_of(own, BATCH // 2)

def pipeline(mesh):
    halves = [nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)]
    rank = dist.get_rank()
    like = [torch.zeros(2, LENGTH, WIDTH), torch.zeros(2, LENGTH, 4 * WIDTH)][rank]
    stage = PipelineStage(halves[rank], rank, 2, torch.device("cpu"), like, group=mesh.get_group())
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda found, wanted: found.sum())
    given = (inputs().detach(),) if rank == 0 else ()
    target = torch.zeros(BATCH, LENGTH, WIDTH) if rank else None
    def step(): schedule.step(*given, target=target) if rank else schedule.step(*given)
    step()  # the first one looks for the shapes
    return counted(step)

def sequence_parallel(mesh):
    whole = nn.Sequential(nn.LayerNorm(WIDTH), model())
    plan = {
        "0": SequenceParallel(),
        "1": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "1.0": ColwiseParallel(), "1.2": RowwiseParallel(output_layouts=Shard(1)),
    }
    half = torch.randn(BATCH, LENGTH // 2, WIDTH, requires_grad=True)  # of each sequence
    module = parallelize_module(whole, mesh, plan)
    return counted(lambda: module(half).sum().backward())

class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.inner, self.reentrant = model(), reentrant
    def forward(self, x): return checkpoint(self.inner, x, use_reentrant=self.reentrant)

def main():
    torch.manual_seed(0)
    found = {"one": step_of(model())}
    found["checkpoint"] = step_of(Checkpointed(False))
    found["reentrant"] = step_of(Checkpointed(True))
    def accumulate():
        module = model()
        for _ in range(4):
            module(inputs(1)).sum().backward()
    found["accumulation"] = counted(accumulate)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    found["tp"] = step_of(parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}))
    found["tp with sp"] = sequence_parallel(mesh)
    found["fsdp"] = step_of(fully_shard(model(), mesh=mesh), BATCH // 2)
    found["fsdp, checkpoint"] = step_of(fully_shard(Checkpointed(False), mesh=mesh), BATCH // 2)
    found["pp"] = pipeline(mesh)
    found["ep"] = experts()
    every = [None, None]
    dist.all_gather_object(every, found)
    compiled = torch.compile(model(), backend="aot_eager")
    compiled(inputs()).sum().backward()
    every.append(step_of(compiled))
    if dist.get_rank() == 0:
        json.dump(every, open(sys.argv[1], "w"))
    dist.destroy_process_group()

main()
"""
ONE = 3 * 2 * 4 * 8 * 32 * 4 * 32 * 2  # forward and twice that backward, of two matrices


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("flops")
    (folder / "flops.py").write_text(SCRIPT)
    scripts.run(["flops.py", "found.json"], folder, ranks=2)
    return json.loads((folder / "found.json").read_text())


@cache
def expert() -> int:
    return 3 * 2 * 4 * 8 * 32 * 32


@pytest.mark.parametrize("kind", ["one", "checkpoint", "reentrant", "accumulation"])
def test_a_step_alone_is_counted_once(ranks: Any, kind: str) -> None:
    assert ranks[0][kind] == ONE


@pytest.mark.parametrize("kind", ["tp", "tp with sp", "fsdp", "fsdp, checkpoint"])
def test_each_rank_counts_its_share(ranks: Any, kind: str) -> None:
    assert [rank[kind] for rank in ranks[:2]] == [ONE / 2, ONE / 2]


def test_stages_and_experts_together_are_the_model(ranks: Any) -> None:
    assert sum(rank["ep"] for rank in ranks[:2]) == expert()
    first = 2 * 2 * 4 * 8 * 32 * 4 * 32  # no gradient of its inputs is asked for
    assert [rank["pp"] for rank in ranks[:2]] == [first, ONE / 2]


def test_a_compiled_step_is_no_number(ranks: Any) -> None:
    assert ranks[2] == "nothing"
