"""What a script tells the platform through the spool."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch

from tests.sdk.conftest import Clock
from tests.sdk.scripts import events
from trainmaster.checkpoints.saving import CheckpointNotSaved
from trainmaster.run import Run

Make = Callable[..., Run]


def spool(tmp_path: Path, rank: int = 0) -> Path:
    return tmp_path / "attempt" / "spool" / f"rank-{rank}.jsonl"


def test_the_first_event_tells_what_the_run_is_made_of(on_a_node: Make, tmp_path: Path, clock: Clock) -> None:
    run = on_a_node(hyperparameters={"lr": 0.1, "width": 8}, seed=7)
    run.begin(400, {"lr": 0.2}, None)
    [said] = events(spool(tmp_path))
    assert said["kind"] == "init"
    assert said["at_ms"] == clock.ms
    assert said["step_total"] == 400
    assert said["seed"] == 7
    assert said["params"] == {"lr": 0.2, "width": 8}
    assert said["packages"]["torch"] == torch.__version__
    assert "python" in said["packages"]
    assert " x " in said["hardware"]


def test_metrics_are_numbers_whatever_type_they_have(on_a_node: Make, tmp_path: Path) -> None:
    values = {
        "loss": torch.tensor(2.5, requires_grad=True),
        "lr": numpy.float32(0.5),
        "seen": 3,
        "nan": math.nan,
    }
    on_a_node().log(5, values)
    [said] = events(spool(tmp_path), "metrics")
    assert said["step"] == 5
    assert math.isnan(said["values"].pop("nan"))
    assert said["values"] == {"loss": 2.5, "lr": 0.5, "seen": 3}


def test_a_value_that_is_no_number_costs_one_warning_and_nothing_else(
    on_a_node: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = on_a_node()
    for step in (1, 2):
        run.log(step, {"loss": 1.0, "note": "hello", "many": torch.zeros(3)})
    assert [said["values"] for said in events(spool(tmp_path))] == [{"loss": 1.0}, {"loss": 1.0}]
    assert capsys.readouterr().err.count("note is str") == 1


def test_other_ranks_do_not_draw_over_the_curves_of_rank_0(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node(rank=2, world_size=4)
    run.begin(10, {}, None)
    run.log(1, {"loss": 1.0})
    assert not spool(tmp_path, rank=2).exists()


def test_a_checkpoint_that_cannot_be_written_is_told_with_the_reason(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    run.save_checkpoint({"weight": torch.ones(2)}, 10, {}, blocking=True)
    (tmp_path / "attempt" / "checkpoints" / "step-00000050").write_text("in the way")
    with pytest.raises(CheckpointNotSaved):
        run.save_checkpoint({"weight": torch.ones(2)}, 50, {}, blocking=True)
    *_, started, failed = events(spool(tmp_path))
    assert (started["kind"], failed["kind"], failed["step"]) == (
        "checkpoint_started",
        "checkpoint_failed",
        50,
    )
    assert "step-00000050" in failed["why"]


def test_a_checkpoint_is_announced_before_and_after(on_a_node: Make, tmp_path: Path) -> None:
    folder = on_a_node().save_checkpoint(
        {"weight": torch.ones(2)}, 50, {"loss": torch.tensor(1.5)}, blocking=True
    )
    assert folder == tmp_path / "attempt" / "checkpoints" / "step-00000050"
    started, saved = events(spool(tmp_path))
    assert (started["kind"], started["step"]) == ("checkpoint_started", 50)
    assert (saved["kind"], saved["path"], saved["metrics"]) == (
        "checkpoint",
        "checkpoints/step-00000050",
        {"loss": 1.5},
    )


def test_a_job_may_choose_where_its_checkpoints_lie(on_a_node: Make, tmp_path: Path) -> None:
    on_a_node(checkpoint_path="out/saved").save_checkpoint({}, 1, {}, blocking=True)
    assert events(spool(tmp_path), "checkpoint")[0]["path"] == "out/saved/step-00000001"


def test_the_agent_has_time_to_upload_before_anything_is_pruned(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node(keep_last=1)
    for step in range(1, 14):
        run.save_checkpoint({}, step, {}, blocking=True)
    left = sorted(path.name for path in (tmp_path / "attempt" / "checkpoints").iterdir())
    assert left == [f"step-{step:08d}" for step in range(3, 14)]


def test_a_first_attempt_has_nothing_to_resume(on_a_node: Make) -> None:
    assert on_a_node().load_checkpoint() is None


def test_an_attempt_resumes_from_what_was_fetched_for_it(on_a_node: Make, tmp_path: Path) -> None:
    earlier = on_a_node(checkpoint_path="earlier")
    saved = earlier.save_checkpoint({"weight": torch.ones(2)}, 50, {}, blocking=True)
    assert saved is not None
    saved.rename(tmp_path / "attempt" / "resume")
    found = on_a_node(resume=str(tmp_path / "attempt" / "resume")).load_checkpoint()
    assert found is not None
    state, step = found
    assert step == 50
    assert torch.equal(state["weight"], torch.ones(2))


def test_a_restart_in_place_prefers_its_own_newer_checkpoint(on_a_node: Make, tmp_path: Path) -> None:
    saved = on_a_node(checkpoint_path="earlier").save_checkpoint({}, 50, {}, blocking=True)
    assert saved is not None
    on_a_node().save_checkpoint({}, 60, {}, blocking=True)
    found = on_a_node(resume=str(saved)).load_checkpoint()
    assert found is not None
    assert found[1] == 60


def test_the_policy_of_the_job_decides_when_to_save(on_a_node: Make, clock: Clock) -> None:
    by_steps = on_a_node(interval_steps=50)
    assert [step for step in range(201) if by_steps.checkpoint_due(step, every=10)] == [50, 100, 150, 200]
    by_time = on_a_node(interval_seconds=60)
    assert not by_time.checkpoint_due(10, every=10)
    clock.ms += 60_000
    assert by_time.checkpoint_due(11, every=10)
    by_time.save_checkpoint({}, 11, {}, blocking=True)
    assert not by_time.checkpoint_due(12, every=10)
    assert on_a_node().checkpoint_due(10, every=10)


def test_the_stop_file_of_the_agent_asks_to_stop(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    assert not run.should_stop()
    (tmp_path / "attempt" / "stop").write_text('{"grace_seconds": 30}')
    while not run.should_stop():  # looks at the disk 20 times a second
        pass


def test_the_first_look_at_should_stop_is_reported_once(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    for _ in range(3):
        run.should_stop()
    assert [event["kind"] for event in events(spool(tmp_path))] == ["watches_stop"]


def test_an_artifact_is_kept_as_it_was(on_a_node: Make, tmp_path: Path) -> None:
    source = tmp_path / "my plot.txt"
    source.write_text("first")
    run = on_a_node()
    kept = run.log_artifact(source)
    source.write_text("second")
    assert kept is not None
    assert kept.read_text() == "first"
    [said] = events(spool(tmp_path), "artifact")
    assert (said["name"], said["path"]) == ("my_plot.txt", "artifacts/my_plot.txt")
    run.log_artifact(source)
    assert kept.read_text() == "second"


def test_a_folder_may_be_an_artifact(on_a_node: Make, tmp_path: Path) -> None:
    (tmp_path / "plots" / "deep").mkdir(parents=True)
    (tmp_path / "plots" / "deep" / "a").write_text("a")
    run = on_a_node()
    run.log_artifact(tmp_path / "plots")
    kept = run.log_artifact(tmp_path / "plots")
    assert kept is not None
    assert (kept / "deep" / "a").read_text() == "a"
