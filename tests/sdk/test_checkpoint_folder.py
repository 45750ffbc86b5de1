"""The folder format: whole or absent, and damage is found."""

import json
from pathlib import Path

import pytest

from trainmaster.checkpoints import folder
from trainmaster.checkpoints.folder import CheckpointCorrupt, Description, Writer

FILES: dict[str, Writer] = {
    "state.pt": lambda file: _write(file, b"0123456789"),
    "random.pt": lambda file: None,
}


def _write(file: object, data: bytes) -> None:
    file.write(data)  # type: ignore[attr-defined]


def save(parent: Path, step: int = 50, writers: dict[str, Writer] = FILES) -> Path:
    description = Description(step, {"loss": 1.5, "broken": float("nan")}, 2, 1_700)
    return folder.write(parent, description, writers, lambda written: None)


def test_it_is_described_for_everybody_to_read(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert path.name == "step-00000050"
    document = json.loads((path / "trainmaster.json").read_text())
    assert (document["step"], document["metrics"], document["world_size"]) == (50, {"loss": 1.5}, 2)
    assert [file["path"] for file in document["files"]] == ["state.pt", "random.pt"]
    assert document["files"][0] == {
        "path": "state.pt",
        "size": 10,
        "sha256": "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882",
    }
    assert folder.verify(path).step == 50


def test_a_writer_that_fails_leaves_only_what_was_there(tmp_path: Path) -> None:
    older = save(tmp_path, 40)

    def fail(file: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        save(tmp_path, 50, {"state.pt": fail})
    assert list(tmp_path.iterdir()) == [older]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: (path / "state.pt").write_bytes(b"0123456780"), "was damaged after it was saved"),
        (lambda path: (path / "state.pt").write_bytes(b"012345678"), "has 9 bytes; 10 were saved"),
        (lambda path: (path / "state.pt").unlink(), "cannot be read: No such file"),
        (lambda path: (path / "trainmaster.json").unlink(), "is no checkpoint"),
        (lambda path: (path / "trainmaster.json").write_text("{"), "does not make sense"),
        (lambda path: (path / "trainmaster.json").write_text('{"step": 1}'), "does not make sense"),
    ],
)
def test_damage_is_refused_with_what_is_wrong(tmp_path: Path, damage: object, sentence: str) -> None:
    path = save(tmp_path)
    damage(path)  # type: ignore[operator]
    with pytest.raises(CheckpointCorrupt, match=sentence):
        folder.verify(path)


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "step-00000050" / "state.pt").write_bytes(b"damaged")
    assert folder.verify(save(tmp_path)).step == 50


def test_the_newest_is_the_one_with_the_highest_step(tmp_path: Path) -> None:
    for step in (9, 100_000_000, 10):
        save(tmp_path, step)
    (tmp_path / "step-00000011.corrupt").mkdir()
    found = [path.name for path in folder.newest_first(tmp_path)]
    assert found == ["step-100000000", "step-00000010", "step-00000009"]


def test_pruning_removes_the_oldest_and_what_a_killed_writer_left(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / ".writing-step-00000004-77").mkdir()
    folder.prune(tmp_path, keep_last=0)
    assert len(folder.newest_first(tmp_path)) == 3
    folder.prune(tmp_path, keep_last=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000003"]
