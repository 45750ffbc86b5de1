from pathlib import Path

import click
import pytest

from trainmaster.cli import job_file
from trainmaster.cli.commands import Failure


def test_numbers_are_read_as_everybody_means_them(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("hyperparameters: {a: 1e-3, b: 3E5, c: .5e2, d: 1e3x, e: 0.001, f: 12, g: on}\n")
    found = job_file.read(file)["hyperparameters"]
    assert found == {"a": 0.001, "b": 300_000.0, "c": 50.0, "d": "1e3x", "e": 0.001, "f": 12, "g": True}


def test_settings_change_fields_and_fields_inside(tmp_path: Path) -> None:
    spec = {"name": "a", "hyperparameters": {"lr": 1, "width": 8}}
    changed = job_file.change(
        spec,
        [
            "name=b",
            "hyperparameters.lr=3e-4",
            "hyperparameters.optimizer.beta=0.9",
            "tags=[x, y]",
            "environment.A=b=c",
        ],
    )
    assert changed == {
        "name": "b",
        "hyperparameters": {"lr": 0.0003, "width": 8, "optimizer.beta": 0.9},
        "tags": ["x", "y"],
        "environment": {"A": "b=c"},
    }
    assert spec["hyperparameters"] == {"lr": 1, "width": 8}


@pytest.mark.parametrize("setting", ["name", "=1", "name.x=1", "tags=[1"])
def test_a_setting_that_cannot_be_meant_is_a_usage_error(setting: str) -> None:
    with pytest.raises(click.UsageError):
        job_file.change({"name": "a"}, [setting])


@pytest.mark.parametrize("text", ["- a\n- b\n", "", "name: [", "\x00"])
def test_a_file_that_describes_no_job_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(Failure, match=r"job\.yaml"):
        job_file.read(file)
