"""Ranks that hold parts of one copy of the model are fed the same samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.errors import TrainmasterError
from platform_core.jobs.parallel import ORDER, Parallel
from tests.sdk import scripts
from tests.sdk.data.test_loader import Numbers
from trainmaster import feeds
from trainmaster.data import DataLoader

COUNT, BATCH = 64, 16
SIZES = st.sampled_from([1, 2, 3, 4])


@pytest.fixture(autouse=True)
def no_other_loaders() -> Iterator[None]:
    yield
    feeds.forget()


def coordinates(layout: Parallel, rank: int) -> dict[str, int]:
    """By counting, as a mesh of these dimensions has them."""
    places = {}
    for name in reversed(ORDER):
        rank, places[name] = divmod(rank, getattr(layout, name) or 1)
    return places


@given(dp=SIZES, fsdp=SIZES, tp=SIZES, cp=SIZES, pp=SIZES)
def test_the_data_rank_is_the_place_among_dp_and_fsdp(dp: int, fsdp: int, tp: int, cp: int, pp: int) -> None:
    layout = Parallel(dp=dp, fsdp=fsdp, tp=tp, cp=cp, pp=pp)
    for rank in range(dp * fsdp * tp * cp * pp):
        place = coordinates(layout, rank)
        assert layout.data_rank(rank) == place["dp"] * fsdp + place["fsdp"]


def fed(
    monkeypatch: pytest.MonkeyPatch, layout: str, ranks: int, rank: int, state: object = None
) -> list[int]:
    """The samples of the next batch of one rank."""
    for name, value in {"TRAINMASTER_PARALLEL": layout, "WORLD_SIZE": str(ranks), "RANK": str(rank)}.items():
        monkeypatch.setenv(name, value)
    feeds.forget()
    loader = DataLoader(Numbers(COUNT), BATCH, seed=3, collate=list)
    if state is not None:
        loader.load_state_dict(state)  # type: ignore[arg-type]
    return [int(sample) for sample in next(iter(loader))]


@pytest.mark.parametrize(
    "layout",
    [
        "tp=2", "tp=2,sp=true", "pp=2", "cp=2", "cp=2,tp=2", "fsdp=2,tp=2,pp=2", "fsdp=4,tp=2", "dp=2,fsdp=2,tp=2",
        "fsdp=4,ep=2,tp=2",
    ],
)  # fmt: skip
def test_ranks_of_one_copy_get_the_same_and_all_together_the_batch(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = fed(monkeypatch, "", 1, 0)
    sizes = {
        name: int(size)
        for name, _, size in (part.partition("=") for part in layout.split(","))
        if size.isdigit()
    }
    copy = sizes.get("fsdp", 1)
    parallel = Parallel(
        dp=8 // (copy * sizes.get("tp", 1) * sizes.get("cp", 1) * sizes.get("pp", 1)),
        **{name: size for name, size in sizes.items() if name != "dp"},
    )
    given_to: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for rank in range(8):
        place = coordinates(parallel, rank)
        samples = tuple(fed(monkeypatch, layout, 8, rank))
        given_to.setdefault((place["dp"], place["fsdp"]), set()).add(samples)
    assert all(len(samples) == 1 for samples in given_to.values())
    assert sorted(sample for [samples] in given_to.values() for sample in samples) == sorted(alone)


def test_a_run_goes_on_at_the_exact_sample_with_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    fed(monkeypatch, "fsdp=2,tp=2", 8, 5)
    loader = DataLoader(Numbers(COUNT), BATCH, seed=3, collate=list, name="saved")
    next(iter(loader))
    state = loader.state_dict()
    alone = fed(monkeypatch, "", 1, 0, state)
    by_pipeline = [fed(monkeypatch, "pp=2,fsdp=2", 4, rank, state) for rank in range(4)]
    assert by_pipeline[0] == by_pipeline[2]
    assert sorted(by_pipeline[0] + by_pipeline[1]) == sorted(alone)


def test_what_the_script_says_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMASTER_PARALLEL", "tp=2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = DataLoader(Numbers(COUNT), BATCH, rank=3, world_size=4)
    assert (loader.rank, loader.world_size) == (3, 4)


@pytest.mark.parametrize("given", [{"rank": 1}, {"world_size": 4}])
def test_half_of_a_place_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="was given alone; give rank and world_size together"):
        DataLoader(Numbers(COUNT), BATCH, **given)  # type: ignore[arg-type]


def test_a_layout_that_does_not_fit_the_ranks_is_refused_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRAINMASTER_PARALLEL", "tp=4")
    monkeypatch.setenv("WORLD_SIZE", "6")
    with pytest.raises(TrainmasterError, match="takes 4 ranks or a multiple of it, but there are 6"):
        DataLoader(Numbers(COUNT), BATCH)


# The fake backend knows every rank of a group that has one process.
MESHES = """
import json, sys
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
import trainmaster
from trainmaster import feeds
from trainmaster.data import DataLoader, ranks

ranks.collective.maximum = lambda values: values

class Numbers:
    def __len__(self): return 64
    def __getitem__(self, index): return index

def place(mesh):
    try:
        loader = DataLoader(Numbers(), 16, mesh=mesh, name=str(id(mesh)))
    except ValueError as error:
        return str(error)
    return [loader.rank, loader.world_size]

found = []
for rank in range(8):
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=8)
    meshes = [
        trainmaster.device_mesh("cpu"),
        trainmaster.expert_mesh("cpu"),
        init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp_shard", "tp")),
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "rows")),
        init_device_mesh("cpu", (2, 4)),
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))["tp"],
    ]
    found.append([place(mesh) for mesh in meshes] + [place(None)])
    dist.destroy_process_group()
json.dump(found, open(sys.argv[1], "w"))
"""


def test_a_mesh_says_it_too_and_one_that_cannot_is_refused_with_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "meshes.py").write_text(MESHES)
    scripts.run(["meshes.py", "found.json"], tmp_path, TRAINMASTER_PARALLEL="pp=2,fsdp=2,tp=2,ep=2")
    for rank, found in enumerate(json.loads((tmp_path / "found.json").read_text())):
        expected = [rank // 2 % 2, 2]
        assert found[0] == found[1] == found[2] == found[6] == expected
        assert "dimension rows of the mesh" in found[3]
        assert "have no names" in found[4]
        assert (
            found[5] == "The mesh has 4 ranks, and there are 8; give the whole mesh, or rank and world_size."
        )
