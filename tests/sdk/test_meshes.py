"""The layout and the mesh of a script: by the variable that the agent sets, or by hand under torchrun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trainmaster
from platform_core.errors import TrainmasterError
from platform_core.jobs.parallel import Parallel
from tests.sdk.scripts import run

# The fake backend knows every rank of a group that has one process.
SCRIPT = """
import json
import sys

import torch.distributed as dist
import trainmaster
from torch.testing._internal.distributed.fake_pg import FakeStore

found = []
for rank in range(4):
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)
    mesh = trainmaster.device_mesh("cpu")
    found.append({"names": mesh.mesh_dim_names, "ranks": mesh.mesh.tolist(), "place": mesh.get_coordinate()})
    dist.destroy_process_group()
json.dump(found, open(sys.argv[1], "w"))
"""


def test_the_sizes_follow_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("TRAINMASTER_PARALLEL", "fsdp=2,tp=2,sp=true")
    assert trainmaster.layout() == Parallel(dp=4, fsdp=2, tp=2, sp=True)
    monkeypatch.delenv("TRAINMASTER_PARALLEL")
    assert trainmaster.layout() == Parallel(dp=16)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp=3,pp=2", "(pp 2 x tp 3) takes 6 ranks or a multiple of it, but there are 16"),
        ("dp=4,tp=2", "dp 4 x tp 2 takes 8 ranks, but there are 16; set dp=8 or leave it out"),
        ("tp=two", "'tp=two': tp is 'two'"),
        ("tensor=2", "tensor is not a field"),
    ],
)
def test_a_layout_that_does_not_fit_the_ranks_is_refused(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("TRAINMASTER_PARALLEL", text)
    with pytest.raises(TrainmasterError) as refused:
        trainmaster.layout()
    assert "TRAINMASTER_PARALLEL is not valid" in refused.value.sentence
    assert words in refused.value.sentence


def test_tensor_ranks_are_neighbours_in_the_mesh(tmp_path: Path) -> None:
    (tmp_path / "mesh.py").write_text(SCRIPT)
    run(["mesh.py", "mesh.json"], tmp_path, TRAINMASTER_PARALLEL="tp=2 pp=2")
    found = json.loads((tmp_path / "mesh.json").read_text())
    assert found[0]["names"] == ["pp", "dp", "fsdp", "cp", "tp"]
    assert {json.dumps(rank["ranks"]) for rank in found} == {"[[[[[0, 1]]]], [[[[2, 3]]]]]"}
    assert [rank["place"] for rank in found] == [
        [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [1, 0, 0, 0, 1],
    ]  # fmt: skip


EXPERTS = """
import json
import sys

import torch
import torch.distributed as dist
import trainmaster

dist.init_process_group("gloo")
mesh, rank = trainmaster.expert_mesh("cpu"), dist.get_rank()
sums = {}
for name in ("dp", "ep", "tp"):
    value = torch.tensor(10**rank)
    dist.all_reduce(value, group=mesh.get_group(name))
    sums[name] = int(value)
json.dump({"sizes": dict(zip(mesh.mesh_dim_names, mesh.shape)), **sums}, open(f"{sys.argv[1]}-{rank}.json", "w"))
dist.destroy_process_group()
"""


def test_expert_ranks_are_data_ranks_of_one_stage_that_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "experts.py").write_text(EXPERTS)
    run(["experts.py", "found"], tmp_path, ranks=4, TRAINMASTER_PARALLEL="dp=2 fsdp=2 ep=2")
    found = [json.loads((tmp_path / f"found-{rank}.json").read_text()) for rank in range(4)]
    assert found[0]["sizes"] == {"pp": 1, "dp": 2, "ep": 2, "cp": 1, "tp": 1}
    assert [rank["ep"] for rank in found] == [11, 11, 1100, 1100]  # 0 with 1, 2 with 3
    assert [rank["dp"] for rank in found] == [101, 1010, 101, 1010]  # 0 with 2, 1 with 3
    assert [rank["tp"] for rank in found] == [1, 10, 100, 1000]


def test_expert_ranks_that_do_not_divide_the_data_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "6")
    monkeypatch.setenv("TRAINMASTER_PARALLEL", "fsdp=3,ep=2,tp=2")
    with pytest.raises(TrainmasterError, match="3 data ranks") as refused:
        trainmaster.expert_mesh("cpu")
    assert "cannot be divided into 2 expert ranks (ep)" in refused.value.sentence
