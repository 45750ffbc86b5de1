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
