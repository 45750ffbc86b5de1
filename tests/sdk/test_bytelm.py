"""The example, small: it trains over ranks, stops and resumes exactly, and its job files are sound."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from platform_core.jobs import spec
from tests.sdk.scripts import attempt_folder, environment, events
from trainmaster.cli import job_file

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bytelm"
SIZES = '"layers": 1, "width": 16, "context": 16, "batch": 4, "eval_batch": 4'
TINY = f'{{"steps": 6, "eval_every": 3, "warmup": 2, {SIZES}}}'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bytelm") / "data"
    subprocess.run([sys.executable, EXAMPLE / "prepare.py", target], check=True, capture_output=True)
    return target


def train(attempt: Path, data: Path, **variables: object) -> list[dict[str, Any]]:
    """As the agent runs it: torchrun around trainmaster.rank, two slots. The events of rank 0."""
    words = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "trainmaster.rank",
        "train.py",
    ]
    shutil.copytree(EXAMPLE, attempt / "code", dirs_exist_ok=True)
    told = {
        "TRAINMASTER_DIR": attempt,
        "TRAINMASTER_DATA": data,
        "TRAINMASTER_HYPERPARAMETERS": TINY,
        "TRAINMASTER_CHECKPOINT_INTERVAL_STEPS": 3,
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=attempt / "code", env=environment(**(told | variables)), check=False
    )
    assert done.returncode == 0, (attempt / "logs" / "rank-0.log").read_text()
    return events(attempt / "spool" / "rank-0.jsonl")


def losses(said: list[dict[str, Any]]) -> dict[int, tuple[float, float | None]]:
    found = [event for event in said if event["kind"] == "metrics"]
    return {event["step"]: (event["values"]["loss"], event["values"].get("bits_per_byte")) for event in found}


def test_a_resumed_run_goes_on_bit_by_bit_as_the_uninterrupted_one(tmp_path: Path, data: Path) -> None:
    whole = attempt_folder(tmp_path / "whole")
    said = train(whole, data)
    assert sorted(losses(said)) == [1, 2, 3, 4, 5, 6]
    assert [event["path"] for event in said if event["kind"] == "checkpoint"] == [
        "checkpoints/step-00000003",
        "checkpoints/step-00000006",
    ]
    assert [event["name"] for event in said if event["kind"] == "artifact"] == ["sample.py.txt"]
    resumed = attempt_folder(tmp_path / "resumed")
    again = train(resumed, data, TRAINMASTER_RESUME=whole / "checkpoints" / "step-00000003")
    assert losses(again) == {step: losses(said)[step] for step in (4, 5, 6)}


def test_the_data_is_the_standard_library_with_every_tenth_file_held_out(data: Path) -> None:
    held, kept = (sorted(os.listdir(data / part)) for part in ("heldout", "train"))
    assert not set(held) & set(kept)
    assert len(held) == -(-len(held + kept) // 10)


@pytest.mark.parametrize("name", ["job.yaml", "job-slow.yaml"])
def test_its_job_files_are_sound(name: str) -> None:
    described = job_file.read(EXAMPLE / name)
    parsed = spec.parse({**described, "team": "vision", "code": ""})
    assert parsed.num_gpus == 4
    assert all(isinstance(value, float) for _, value in parsed.hyperparameters)
