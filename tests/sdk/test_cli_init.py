"""`trainmaster init` writes a project that runs."""

import subprocess
import sys
from pathlib import Path

import yaml

from platform_core.jobs.spec import parse
from tests.sdk.conftest import Trainmaster
from trainmaster.cli import job_file


def test_the_script_trains_on_a_cpu_as_it_is(trainmaster: Trainmaster, tmp_path: Path) -> None:
    assert trainmaster("init", "toy").stdout.split() == ["toy/train.py", "toy/job.yaml"]
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path / "toy",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "step 300/300" in done.stdout
    [run] = (tmp_path / "toy" / "trainmaster-runs").iterdir()
    assert [path.name for path in sorted((run / "checkpoints").iterdir())][-1] == "step-00000300"


def test_the_job_file_is_one_that_the_platform_takes(trainmaster: Trainmaster, tmp_path: Path) -> None:
    trainmaster("init", "My project!")
    fields = job_file.read(tmp_path / "My project!" / "job.yaml")
    spec = parse({**fields, "team": "vision", "code": ""})
    assert (spec.name, spec.command, spec.num_gpus) == ("My-project", ("python", "train.py"), 1)
    assert dict(spec.hyperparameters) == {"lr": 0.01, "width": 64}
    trainmaster("init", "second", "--name", "named")
    assert yaml.safe_load((tmp_path / "second" / "job.yaml").read_text())["name"] == "named"


def test_files_that_exist_are_not_overwritten(trainmaster: Trainmaster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine")
    printed = trainmaster("init", code=1).stderr
    assert printed == "Error: . has train.py already; nothing was written.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert (tmp_path / "train.py").read_text() == "mine"
