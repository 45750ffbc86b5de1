"""The same script with no platform around."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch

from platform_core.errors import TrainmasterError
from tests.sdk.scripts import events
from trainmaster import laptop
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster.run import Run

Make = Callable[..., Run]


def test_metrics_are_printed_and_kept(
    on_a_laptop: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = on_a_laptop()
    run.begin(100, {"lr": 0.1}, 1)
    run.log(1, {"loss": 2.0})
    assert "step   1/100 · loss 2" in capsys.readouterr().out
    kept = events(tmp_path / "trainmaster-runs" / "train-1" / "events.jsonl")
    assert [event["kind"] for event in kept] == ["init", "metrics"]


def test_each_run_has_its_own_folder(on_a_laptop: Make, tmp_path: Path) -> None:
    for _ in range(3):
        on_a_laptop().begin(None, {}, None)
    assert sorted(path.name for path in (tmp_path / "trainmaster-runs").iterdir()) == [
        "train-1",
        "train-2",
        "train-3",
    ]


def test_nothing_is_resumed_unless_asked_for(on_a_laptop: Make) -> None:
    on_a_laptop().save_checkpoint({"x": 1}, 10, {}, blocking=True)
    assert on_a_laptop().load_checkpoint() is None


def test_the_newest_run_with_a_checkpoint_goes_on(on_a_laptop: Make, tmp_path: Path) -> None:
    on_a_laptop().save_checkpoint({"x": 1}, 10, {}, blocking=True)
    on_a_laptop().begin(None, {}, None)  # died before it saved anything
    run = on_a_laptop(resume="auto")
    assert run.load_checkpoint() == ({"x": 1}, 10)
    assert run.setting.home == Path("trainmaster-runs/train-1")


def test_auto_without_any_checkpoint_begins_anew(on_a_laptop: Make) -> None:
    assert on_a_laptop(resume="auto").load_checkpoint() is None


def test_a_new_run_may_begin_from_the_state_of_another(on_a_laptop: Make) -> None:
    on_a_laptop().save_checkpoint({"x": 1}, 10, {}, blocking=True)
    run = on_a_laptop(resume="trainmaster-runs/train-1")
    assert run.load_checkpoint() == ({"x": 1}, 10)
    assert run.setting.home == Path("trainmaster-runs/train-2")


def test_a_path_without_a_checkpoint_is_refused(on_a_laptop: Make) -> None:
    with pytest.raises(TrainmasterError, match="no checkpoint in nowhere"):
        on_a_laptop(resume="nowhere")


def test_only_the_newest_checkpoints_stay_on_disk(on_a_laptop: Make, tmp_path: Path) -> None:
    run = on_a_laptop(keep_last=2)
    for step in (10, 20, 30):
        run.save_checkpoint({}, step, {}, blocking=True)
    left = sorted(path.name for path in (tmp_path / "trainmaster-runs/train-1/checkpoints").iterdir())
    assert left == ["step-00000020", "step-00000030"]


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_one_flipped_bit_is_found_and_the_older_checkpoint_is_used(
    on_a_laptop: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = on_a_laptop()
    run.save_checkpoint({"x": torch.zeros(1000)}, 10, {}, blocking=True)
    run.save_checkpoint({"x": torch.ones(1000)}, 20, {}, blocking=True)
    checkpoints = tmp_path / "trainmaster-runs/train-1/checkpoints"
    damage(checkpoints / "step-00000020" / "rank-00000-000.safetensors")
    found = on_a_laptop(resume="auto").load_checkpoint()
    assert found is not None
    assert found[1] == 10
    assert "rank-00000-000.safetensors was damaged" in capsys.readouterr().err
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-00000010", "step-00000020.corrupt"]


def test_when_every_checkpoint_is_corrupt_it_says_so_instead_of_beginning_anew(
    on_a_laptop: Make, tmp_path: Path
) -> None:
    on_a_laptop().save_checkpoint({"x": 1}, 10, {}, blocking=True)
    damage(tmp_path / "trainmaster-runs/train-1/checkpoints/step-00000010/values-00000.pt")
    with pytest.raises(CheckpointCorrupt, match="no older one"):
        on_a_laptop(resume="auto").load_checkpoint()


def test_random_numbers_go_on_where_they_were(on_a_laptop: Make) -> None:
    run = on_a_laptop()
    run.begin(None, {}, 7)
    run.save_checkpoint({}, 10, {}, blocking=True)
    expected = (random.random(), float(numpy.random.rand()), float(torch.rand(1)))
    on_a_laptop().begin(None, {}, 8)
    on_a_laptop(resume="auto").load_checkpoint()
    assert (random.random(), float(numpy.random.rand()), float(torch.rand(1))) == expected


def test_one_of_several_ranks_needs_the_others_to_find_the_checkpoint(on_a_laptop: Make) -> None:
    with pytest.raises(RuntimeError, match="init_process_group"):
        on_a_laptop(rank=1, world_size=2).load_checkpoint()


def test_other_ranks_make_no_folder(on_a_laptop: Make, tmp_path: Path) -> None:
    run = on_a_laptop(rank=1, world_size=2)
    run.begin(None, {}, None)
    run.log(1, {"loss": 1.0})
    assert run.save_checkpoint({}, 1, {}) is None
    assert run.log_artifact(tmp_path) is None
    assert not (tmp_path / "trainmaster-runs").exists()


@pytest.mark.parametrize(("script", "name"), [("-", "run-1"), ("-c", "c-1"), ("my script", "my-script-1")])
def test_no_folder_begins_with_a_dash(tmp_path: Path, script: str, name: str) -> None:
    assert laptop.choose(tmp_path, script, "").folder.name == name
