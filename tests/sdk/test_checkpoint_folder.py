"""The folder format: whole or absent, and damage is found."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from tests.sdk.checkpoints_made import load_one, make_saver, save, save_format_1
from trainmaster.checkpoints import folder, verification
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster.checkpoints.saving import CheckpointNotSaved, Request

STATE = {"weight": torch.arange(6.0), "lr": 0.1}
TENSORS = "rank-00000-000.safetensors"


def test_it_is_described_for_everybody_to_read(tmp_path: Path) -> None:
    path = save(tmp_path, STATE, loss=1.5, broken=float("nan"))
    assert path.name == "step-00000050"
    document = json.loads((path / "trainmaster.json").read_text())
    assert (document["format"], document["step"], document["metrics"]) == (2, 50, {"loss": 1.5})
    assert (document["world_size"], document["nodes"], document["node_rank"]) == (1, 1, 0)
    assert [file["path"] for file in document["files"]] == [TENSORS, "values-00000.pt", "tensors.json"]
    tensors = (path / TENSORS).read_bytes()
    chunk = hashlib.sha256(tensors).hexdigest()
    assert document["files"][0] == {
        "path": TENSORS,
        "size": len(tensors),
        "sha256": hashlib.sha256(bytes.fromhex(chunk)).hexdigest(),
        "chunks": [chunk],
    }
    assert sorted(os.listdir(path)) == [TENSORS, "tensors.json", "trainmaster.json", "values-00000.pt"]
    assert verification.verify(path).step == 50


def test_its_tensors_lie_in_a_safetensors_file(tmp_path: Path) -> None:
    data = (save(tmp_path, STATE) / TENSORS).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header["weight"] == {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}
    assert data[8 + length :] == STATE["weight"].numpy().tobytes()  # type: ignore[attr-defined]


def test_a_save_that_fails_leaves_only_what_was_there(tmp_path: Path) -> None:
    older = save(tmp_path, STATE, 40)
    warned: list[str] = []
    saver = make_saver(tmp_path, warned=warned)
    (tmp_path / "step-00000050").write_text("in the way")
    assert saver.save(STATE, Request(50, {})) == tmp_path / "step-00000050"
    with pytest.raises(CheckpointNotSaved, match="step 50 was not saved"):
        saver.save(STATE, Request(60, {}))
    assert len(warned) == 1
    assert sorted(tmp_path.iterdir()) == [older, tmp_path / "step-00000050"]
    assert saver.save(STATE, Request(60, {}, blocking=True)) is not None


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: flip(path / TENSORS), "was damaged after it was saved"),
        (lambda path: os.truncate(path / TENSORS, 20), "has 20 bytes; "),
        (lambda path: (path / TENSORS).unlink(), "cannot be read: No such file"),
        (lambda path: flip(path / "values-00000.pt"), "was damaged after it was saved"),
        (lambda path: (path / "trainmaster.json").unlink(), "is no checkpoint"),
        (lambda path: (path / "trainmaster.json").write_text("{"), "does not make sense"),
        (lambda path: (path / "trainmaster.json").write_text('{"step": 1}'), "does not make sense"),
    ],
)
def test_damage_is_refused_with_what_is_wrong(tmp_path: Path, damage: object, sentence: str) -> None:
    path = save(tmp_path, STATE)
    damage(path)  # type: ignore[operator]
    into = {"weight": torch.full((6,), -1.0)}
    with pytest.raises(CheckpointCorrupt, match=sentence):
        load_one(path, into)
    assert into["weight"].tolist() == [-1.0] * 6


def test_a_checkpoint_of_version_0_1_0_still_loads(tmp_path: Path) -> None:
    path = save_format_1(tmp_path, STATE)
    assert torch.equal(load_one(path).state["weight"], STATE["weight"])  # type: ignore[arg-type]
    into = {"weight": torch.zeros(6), "lr": 0.0}
    assert load_one(path, into).state["lr"] == 0.1
    assert torch.equal(into["weight"], STATE["weight"])  # type: ignore[arg-type]
    flip(path / "state.pt")
    with pytest.raises(CheckpointCorrupt, match="was damaged after it was saved"):
        load_one(path)


def test_an_unchanged_group_of_tensors_has_the_same_bytes_at_the_next_save(tmp_path: Path) -> None:
    saver = make_saver(tmp_path)
    state = {"frozen": torch.randn(5, 3), "step": 1}
    first, second = (saver.save({**state, "step": step}, Request(step, {}, blocking=True)) for step in (1, 2))
    assert first is not None
    assert second is not None
    assert (first / TENSORS).read_bytes() == (second / TENSORS).read_bytes()
    assert load_one(second).state["step"] == 2


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    path = save(tmp_path, STATE)
    (path / TENSORS).write_bytes(b"damaged")
    assert load_one(save(tmp_path, STATE)).step == 50


def test_the_newest_is_the_one_with_the_highest_step(tmp_path: Path) -> None:
    for step in (9, 100_000_000, 10):
        save(tmp_path, {}, step)
    (tmp_path / "step-00000011.corrupt").mkdir()
    found = [path.name for path in folder.newest_first(tmp_path)]
    assert found == ["step-100000000", "step-00000010", "step-00000009"]


def test_pruning_removes_the_oldest_and_what_a_killed_writer_left(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, {}, step)
    for name in ("step-00000003-77", "step-00000004-79", "probe-7a"):
        (tmp_path / f".writing-{name}").mkdir()
    folder.prune(tmp_path, 0, named=(78, 3))
    assert len(folder.newest_first(tmp_path)) == 3
    folder.prune(tmp_path, 2, named=(78, 3))
    next_one = ".writing-step-00000004-79"
    assert sorted(path.name for path in tmp_path.iterdir()) == [next_one, "step-00000002", "step-00000003"]


def test_the_part_of_one_node_alone_is_no_checkpoint(tmp_path: Path) -> None:
    path = save(tmp_path, STATE)
    document = json.loads((path / "trainmaster.json").read_text())
    document["nodes"], document["files"] = 2, document["files"][1:]  # the tensors are on the other node
    (path / "trainmaster.json").write_text(json.dumps(document))
    with pytest.raises(CheckpointCorrupt, match="part of a node is missing"):
        load_one(path)
    shutil.rmtree(path)


def flip(path: Path, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1 << bit
    path.write_bytes(data)
