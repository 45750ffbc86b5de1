"""A job file that stands for more values than a computer can go through is refused at once."""

from pathlib import Path

import pytest

from trainmaster.cli.commands import Failure
from trainmaster.cli.job_file import change, read


def test_aliases_in_a_job_file_are_refused_with_their_line(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (tmp_path / "job.yaml").write_text("\n".join(lines))
    with pytest.raises(Failure, match="line 2 has an alias"):
        read(tmp_path / "job.yaml")


def test_plain_values_are_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nhyperparameters: {lr: 1e-3}\n")
    assert change(read(tmp_path / "job.yaml"), ["num_gpus=2"])["hyperparameters"] == {"lr": 0.001}
